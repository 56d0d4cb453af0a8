"""The dead-letter topic: targets that failed for good, with the reason, and envelopes of unknown tasks."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
import pulsar

from backends.pulsar.record_producer import RecordProducer
from backends.redis.letter_index import block_of, counter_of
from dispatcher.model.errors import FairlaneError
from dispatcher.ports import DeadLetter, Done
from dispatcher.wire.letters import parts_of, without_texts
from dispatcher.wire.topics import Topics

OTHERS = "others"
_MAX_COUNTERS = 20
"""Maximum number of lanes and tasks counted by name."""
_encode = msgspec.msgpack.Encoder().encode


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
