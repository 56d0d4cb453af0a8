"""Read the dead-letter topic: its letters, each target once, and the marks on them."""

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import pulsar

from backends.pulsar.client import position_before
from backends.pulsar.record_producer import RecordProducer
from backends.pulsar.topic_reader import CLOCKS_MS, TopicReader
from backends.redis.letter_index import LetterSpan
from dispatcher.letters.book import SeenTargets
from dispatcher.letters.marks import MARK_KEY, LetterMark, encode_mark, read_mark
from dispatcher.letters.marks import parts_of as marks_parts
from dispatcher.model.errors import DECODING_ERRORS
from dispatcher.ports import DeadLetter, StoredRecord, records_to_end
from dispatcher.wire.checks.nesting import complaint_of
from dispatcher.wire.letters import is_sound, with_rows
from dispatcher.wire.topics import Topics

_SAME_MS = 60_000
"""Times of one minute begin at one record: a seek takes 0.1 s, and a list reads the marks, then the letters."""
_APPEND_S = 30.0
"""How long storing a part of a mark may take."""
_decode = msgspec.msgpack.Decoder(DeadLetter).decode
_log = logging.getLogger(__name__)


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


class _Found(NamedTuple):
    """Behind which position the records of a time begin."""

    since_ms: int
    after: str


class LetterTopic:
    """Reads letters and marks, and appends marks. All methods raise Unreachable, NotFound (not provisioned)."""

    def __init__(self, client: pulsar.Client, topics: Topics) -> None:
        self._client = client
        self._topic = topics.dead_letters
        self._marks: RecordProducer | None = None
        self._found = _Found(0, "")

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
        after, since_ms = None if span is None else span.after, max(0, since_ms - CLOCKS_MS) // _SAME_MS * _SAME_MS
        if since_ms and since_ms == self._found.since_ms:
            after = self._found.after
        is_sought = since_ms and not after
        for record in records_to_end(TopicReader(self._client, self._topic, after, since_ms=since_ms)):
            if is_sought:
                self._found, is_sought = _Found(since_ms, position_before(record.position)), False
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
