"""The dead-letter topic: targets that failed for good, with the reason, and envelopes of unknown tasks."""

import logging
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pulsar

from backends.record_producer import RecordProducer
from backends.topic_reader import Record, TopicReader
from dispatcher.ports import DeadLetter, Done
from dispatcher.topics import Topics

_BATCH = 1_000
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DeadLetter).decode
_log = logging.getLogger(__name__)


class DeadLetterTopic:
    """Implements DeadLetters. A letter is published again until it is stored; `done` gets an error only at closing."""

    def __init__(self, client: pulsar.Client, topics: Topics) -> None:
        """Raises Unreachable, NotFound (not provisioned), Refused."""
        self._producer = RecordProducer(client, topics.dead_letters)

    def publish(self, letter: DeadLetter, done: Done) -> None:
        self._producer.publish(_encode(letter), lambda error, _position: done(error), key=letter.task)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Waits for receipts; False if some were still missing and were given up."""
        return self._producer.close(timeout_s)


def read_dead_letters(client: pulsar.Client, topics: Topics, task: str) -> Iterator[DeadLetter]:
    """A task's dead letters up to the topic's present end, each (writer, sequence, position) once: the first wins.

    Reads the whole topic (14 days), as fast as Pulsar sends it. Raises Unreachable, NotFound (not provisioned).
    """
    seen: set[tuple[str, int, int]] = set()
    with closing(TopicReader(client, topics.dead_letters)) as reader:
        while not reader.at_end():
            for record in reader.read(_BATCH, timeout_s=1.0):
                letter = _letter(record) if record.key == task else None
                news = None if letter is None else _without(letter, seen)
                if news is not None:
                    yield news


def _letter(record: Record) -> DeadLetter | None:
    try:
        return _decode(record.body)
    except msgspec.MsgspecError:
        _log.exception("A dead letter at %s cannot be read and is skipped", record.position)
        return None


def _without(letter: DeadLetter, seen: set[tuple[str, int, int]]) -> DeadLetter | None:
    """The letter with the targets not seen so far, None if there are none; those become seen. A letter without targets
    (an envelope of an unknown task) counts as position -1."""
    keys = [(letter.writer, letter.sequence, position) for position in letter.positions or [-1]]
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
