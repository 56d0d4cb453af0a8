"""A client's connection to Pulsar.

It is imported on first use: a command that only reads the view starts faster without Pulsar's clients.
"""

import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial

from backends.pulsar import client as pulsar_client
from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.dead_letter_reader import LetterTopic, read_dead_letters
from backends.pulsar.record_topics import ControlTopic, read_outcome_records
from backends.pulsar.topic_reader import CLOCKS_MS, TopicReader
from backends.redis.epochs import Epochs
from backends.redis.letter_index import LetterSpan
from backends.redis.registry.registry import Registry
from backends.settings import ConnectionSettings
from backends.system_clock import SystemClock
from dispatcher.clock import Clock
from dispatcher.model.task import PushTask
from dispatcher.model.view import TaskView
from dispatcher.model.view_home import EarlierViews, read_views
from dispatcher.ports import DeadLetter
from dispatcher.wire.outcome import Outcomes
from producers.outcomes.definition import read_definition
from producers.ports import Services
from producers.publish.lanes import SubmissionLanes
from producers.submit.history import KnownSubmissions

_ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class PulsarConnection:
    """One Pulsar client and the objects created from it. Not safe for threads: its owner has a lock."""

    def __init__(self, settings: ConnectionSettings) -> None:
        """Raises Unreachable, InvalidInput."""
        self._settings = settings
        self._topics = pulsar_client.topics(settings.pulsar)
        self._opened = ExitStack()
        self._client = pulsar_client.connect(settings.pulsar)
        self._opened.callback(pulsar_client.close, self._client)
        self._letters = self._opened.enter_context(closing(LetterTopic(self._client, self._topics)))

    def services(self, registry: Registry, epochs: Epochs) -> Services:
        """Return the services. Raises Unreachable if Pulsar does not answer, NotFound if it is not provisioned."""
        clock, options = SystemClock(), self._settings.producer
        control = self._opened.enter_context(closing(ControlTopic(self._client, self._topics)))
        admin = self._opened.enter_context(closing(PulsarAdmin(self._settings.pulsar)))
        return Services(
            control=control,
            registry=registry,
            known=KnownSubmissions(registry, epochs, control.reader),
            lanes=SubmissionLanes(self._client, admin, options),
            topics=self._topics,
            clock=clock,
            new_id=partial(_new_id, clock),
            options=options,
            who=f"{socket.gethostname()}:{os.getpid()}",
        )

    def earlier_views(self, epoch: str, after: str | None) -> EarlierViews:
        """Return the records of other views in the control topic behind a position. Raises Unreachable."""
        return read_views(TopicReader(self._client, self._topics.control, after), epoch)

    def letters(self, view: TaskView, spans: Sequence[LetterSpan] = ()) -> Iterator[DeadLetter]:
        """Yield a task's dead letters. spans: as for read_dead_letters."""
        return read_dead_letters(self._client, self._topics, view.id, spans, view.targets.failed)

    def outcomes(self, view: TaskView) -> Iterator[Outcomes]:
        """Yield the outcome records of the task's topic since it was accepted, those of other tasks among them."""
        return self._outcomes([self._topics.partition_of(view.id)], view.created_ms)

    def all_outcomes(self, since_ms: int) -> Iterator[Outcomes]:
        """Yield the outcome records of all tasks since a wall time."""
        return self._outcomes(range(self._topics.outcome_partitions), since_ms)

    def _outcomes(self, partitions: Iterable[int], since_ms: int) -> Iterator[Outcomes]:
        return read_outcome_records(self._client, self._topics, partitions, since_ms)

    def dead_letters(self) -> LetterTopic:
        """Return the dead-letter topic, for reading and marking."""
        return self._letters

    def definition(self, task: str, created_ms: int) -> PushTask:
        """Return a task as it was submitted, without an id. Raises NotFound if its record is gone, Unreachable."""
        since_ms = max(0, created_ms - CLOCKS_MS)
        return read_definition(task, TopicReader(self._client, self._topics.control, since_ms=since_ms))

    def close(self) -> None:
        self._opened.close()


def _new_id(clock: Clock) -> str:
    """Return a task id of 26 letters and digits: time in milliseconds, then 80 random bits. Ids sort by time."""
    number = (clock.wall_ms() << 80) + secrets.randbits(80)
    return "".join(_ID_ALPHABET[(number >> 5 * digit) & 31] for digit in reversed(range(26)))
