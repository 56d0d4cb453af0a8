"""The dead-letter topic: targets that failed for good, with the reason, and envelopes of unknown tasks."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial

import msgspec
import pulsar

from backends.pulsar.record_producer import RecordProducer
from backends.pulsar.topic_reader import TopicReader
from backends.redis.letter_index import LetterSpan, block_of
from dispatcher.model.errors import FairlaneError
from dispatcher.ports import DeadLetter, Done, StoredRecord
from dispatcher.wire.letters import is_sound, parts_of, without_texts
from dispatcher.wire.topics import Topics

OTHER_LANES = "other lanes"
_MAX_LANES = 20
"""Maximum number of lanes counted by name."""
_BATCH = 1_000
_Key = tuple[str, int, int]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DeadLetter).decode
_log = logging.getLogger(__name__)


class DeadLetterTopic:
    """Implements DeadLetters. A letter is published again until it is stored. `done` gets an error only on close, or if
    the broker refuses a letter even after its texts were removed."""

    def __init__(self, client: pulsar.Client, topics: Topics) -> None:
        """Raises Unreachable, NotFound (not provisioned), Refused."""
        self._producer = RecordProducer(client, topics.dead_letters)
        self._counts: Counter[str] = Counter()
        self._new_blocks: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def publish(self, letter: DeadLetter, done: Done) -> None:
        if not letter.task:
            self._count(letter.lane)
        parts = parts_of(letter)
        receipts = _Receipts(len(parts), done)
        for part in parts:
            self._producer.publish(_encode(part), partial(self._answered, part, receipts), key=part.task)

    def without_task(self) -> Mapping[str, int]:
        """Return the number of letters without a task, by lane."""
        with self._lock:
            return dict(self._counts)

    def index(self, store: Callable[[Mapping[str, set[str]]], None]) -> None:
        """Call `store` with the positions of letters written since the last call, by task: each is that of a block of
        the topic. If `store` raises, the next call passes them again."""
        with self._lock:
            blocks, self._new_blocks = self._new_blocks, {}
        try:
            store(blocks)
        except BaseException:
            with self._lock:
                for task, names in blocks.items():
                    self._new_blocks.setdefault(task, set()).update(names)
            raise

    def close(self, timeout_s: float = 5.0) -> bool:
        """Wait for receipts. Return False if some were still missing and were given up."""
        return self._producer.close(timeout_s)

    def _count(self, lane: str) -> None:
        with self._lock:
            known = lane in self._counts or len(self._counts) < _MAX_LANES
            self._counts[lane if known else OTHER_LANES] += 1

    def _answered(self, letter: DeadLetter, receipts: "_Receipts", error: Exception | None, position: str) -> None:
        """Publish a refused letter again without its texts, in a new thread: this may run in a thread of the client,
        which must not send."""
        if isinstance(error, FairlaneError) and not error.retryable:
            left = _encode(without_texts(letter, f"This dead letter was refused: {error.cause}"))
            send = partial(self._producer.publish, left, receipts.add, letter.task)
            threading.Thread(target=send, name="refused letter", daemon=True).start()
            return
        if error is None and letter.targets:
            with self._lock:
                self._new_blocks.setdefault(letter.task, set()).add(block_of(position))
        receipts.add(error, "")


class _Receipts:
    """Collect the receipts of one letter's parts, and call `done` after the last."""

    def __init__(self, missing: int, done: Done) -> None:
        self._missing = missing
        self._done = done
        self._error: Exception | None = None
        self._lock = threading.Lock()

    def add(self, error: Exception | None, _position: str) -> None:
        with self._lock:
            self._missing -= 1
            self._error = self._error or error
            if self._missing:
                return
        self._done(self._error)


def read_dead_letters(
    client: pulsar.Client, topics: Topics, task: str, spans: Iterable[LetterSpan] = (), expected: int = 0
) -> Iterator[DeadLetter]:
    """Yield a task's dead letters up to the topic's present end, each (writer, sequence, position) once.

    Of copies, the first is yielded. Reads the given parts of the topic first. If they hold no targets, or fewer than
    expected, reads the whole topic (14 days), as fast as Pulsar sends it. Raises Unreachable, NotFound (not
    provisioned).
    """
    seen: set[_Key] = set()
    for span in spans:
        yield from _read(client, topics, task, seen, span)
    if not seen or len(seen) < expected:
        yield from _read(client, topics, task, seen)


def _read(
    client: pulsar.Client, topics: Topics, task: str, seen: set[_Key], span: LetterSpan | None = None
) -> Iterator[DeadLetter]:
    """Yield the letters of a part of the topic (or of all of it) that were not seen before."""
    after = () if span is None else (span.after,)
    with closing(TopicReader(client, topics.dead_letters, *after)) as reader:
        while not reader.at_end():
            for record in reader.read(_BATCH, timeout_s=1.0):
                if span is not None and record.position >= span.before:
                    return
                letter = _letter(record) if record.key == task else None
                unseen = None if letter is None else _without(letter, seen)
                if unseen is not None:
                    yield unseen


def _letter(record: StoredRecord) -> DeadLetter | None:
    try:
        letter = _decode(record.body)
        problem = "" if is_sound(letter) else "its columns do not fit together"
    except msgspec.MsgspecError as error:
        problem = str(error)
    if problem:
        _log.error("A dead letter at %s cannot be read and is skipped: %s", record.position, problem)
        return None
    return letter


def _without(letter: DeadLetter, seen: set[_Key]) -> DeadLetter | None:
    """Return the letter with only the targets not seen before, or None if all were; mark them as seen.

    A letter without targets (an envelope of an unknown task) counts as position -1, and the further parts of a split
    one as -2, -3 and so on.
    """
    keys = [(letter.writer, letter.sequence, position) for position in letter.positions or [-1 - letter.part]]
    fresh = [index for index, key in enumerate(keys) if key not in seen]
    seen.update(keys)
    if len(fresh) == len(keys):
        return letter
    if not fresh:
        return None
    return msgspec.structs.replace(
        letter,
        positions=[letter.positions[i] for i in fresh],
        targets=[letter.targets[i] for i in fresh],
        outcomes=[letter.outcomes[i] for i in fresh],
        reasons=[letter.reasons[i] for i in fresh],
    )
