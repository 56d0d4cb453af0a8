"""The dead-letter topic: targets that failed for good, with the reason, and envelopes of unknown tasks."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import msgspec
import pulsar

from backends.pulsar.record_producer import RecordProducer
from backends.pulsar.topic_reader import CLOCKS_MS, TopicReader
from backends.redis.letter_index import LetterSpan, block_of, counter_of
from dispatcher.letters.book import SeenTargets
from dispatcher.letters.marks import MARK_KEY, LetterMark, encode_mark, read_mark
from dispatcher.letters.marks import parts_of as marks_parts
from dispatcher.model.errors import DECODING_ERRORS, FairlaneError
from dispatcher.ports import DeadLetter, Done, StoredRecord, records_to_end
from dispatcher.wire.checks.nesting import complaint_of
from dispatcher.wire.letters import is_sound, parts_of, with_rows, without_texts
from dispatcher.wire.topics import Topics

OTHERS = "others"
_MAX_COUNTERS = 20
"""Maximum number of lanes and tasks counted by name."""
_APPEND_S = 30.0
"""How long storing a part of a mark may take."""
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
        if name := counter_of(letter):
            self._count(name, max(1, len(letter.targets)))
        parts = parts_of(letter)
        receipts = _Receipts(len(parts), done)
        for part in parts:
            self._producer.publish(_encode(part), partial(self._answered, part, receipts), key=part.task)

    def counts(self) -> Mapping[str, int]:
        """Return the letters that `doctor` names, by counter of the view."""
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

    def _count(self, name: str, letters: int) -> None:
        with self._lock:
            known = name in self._counts or len(self._counts) < _MAX_COUNTERS
            self._counts[name if known else name.partition(":")[0] + ":" + OTHERS] += letters

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
    seen, topic = SeenTargets(), LetterTopic(client, topics)
    for span in spans:
        yield from topic.unseen(seen, task, span)
    if not seen.count or seen.count < expected:
        yield from topic.unseen(seen, task)


class LetterTopic:
    """Reads letters and marks, and appends marks. All methods raise Unreachable, NotFound (not provisioned)."""

    def __init__(self, client: pulsar.Client, topics: Topics) -> None:
        self._client = client
        self._topic = topics.dead_letters
        self._marks: RecordProducer | None = None

    def letters(self, since_ms: int = 0, task: str | None = None) -> Iterator[DeadLetter]:
        """Yield letters up to the present end of the topic, each target once: those of one task, or of all. since_ms:
        begin with those published then or later."""
        yield from self.unseen(SeenTargets(), task, since_ms=since_ms)

    def marks(self, since_ms: int = 0) -> Iterator[LetterMark]:
        """Yield the marks up to the present end of the topic, in its order."""
        for record in self._records(None, since_ms):
            mark = read_mark(record.body) if record.key == MARK_KEY else None
            if mark is not None:
                yield mark

    def append(self, mark: LetterMark) -> None:
        """Store a mark; return when it is stored."""
        if self._marks is None:
            self._marks = RecordProducer(self._client, self._topic)
        for part in marks_parts(mark):
            self._marks.append(encode_mark(part), _APPEND_S, MARK_KEY)

    def close(self) -> None:
        if self._marks is not None:
            self._marks.close()

    def unseen(
        self, seen: SeenTargets, task: str | None, span: LetterSpan | None = None, since_ms: int = 0
    ) -> Iterator[DeadLetter]:
        """Yield the letters of a part of the topic (or of all of it) with the targets that were not seen before."""
        for record in self._records(span, since_ms):
            if record.key == MARK_KEY or (task is not None and record.key != task):
                continue
            letter = _letter(record)
            indexes = [] if letter is None else seen.fresh(letter)
            if letter is not None and indexes:
                yield letter if len(indexes) >= len(letter.positions) else with_rows(letter, indexes)

    def _records(self, span: LetterSpan | None, since_ms: int) -> Iterator[StoredRecord]:
        after, since_ms = None if span is None else span.after, max(0, since_ms - CLOCKS_MS)
        for record in records_to_end(TopicReader(self._client, self._topic, after, since_ms=since_ms)):
            if span is not None and record.position >= span.before:
                return
            yield record


def _letter(record: StoredRecord) -> DeadLetter | None:
    """Return the letter; None if it cannot be read."""
    try:
        letter = _decode(record.body)
        problem = complaint_of(letter.variables or ())
        if not problem and is_sound(letter):
            return letter
        problem = problem or "its columns do not fit together"
    except DECODING_ERRORS as error:
        problem = str(error)
    _log.error("A dead letter at %s cannot be read and is skipped: %s", record.position, problem)
    return None
