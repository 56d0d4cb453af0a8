"""A client's connection to Pulsar.

It is imported on first use: a command that only reads the view starts faster without Pulsar's clients.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing

from backends.pulsar import client as pulsar_client
from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.control_topic import ControlTopic
from backends.pulsar.dead_letter_topic import read_dead_letters
from backends.pulsar.topic_reader import TopicReader
from backends.redis.epochs import Epochs
from backends.redis.letter_index import LetterSpan
from backends.redis.registry.registry import Registry
from backends.system_clock import SystemClock
from dispatcher.model.view_home import EarlierViews, read_views
from dispatcher.ports import DeadLetter
from producers.ports import Services
from producers.publish.lanes import SubmissionLanes
from producers.settings import ConnectionSettings
from producers.submit.history import KnownSubmissions
from producers.submit.ids import id_maker


class PulsarConnection:
    """One Pulsar client and the objects created from it. Not safe for threads: its owner has a lock."""

    def __init__(self, settings: ConnectionSettings) -> None:
        """Raises Unreachable, InvalidInput."""
        self._settings = settings
        self._topics = pulsar_client.topics(settings.pulsar)
        self._opened = ExitStack()
        self._client = pulsar_client.connect(settings.pulsar)
        self._opened.callback(pulsar_client.close, self._client)

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
            new_id=id_maker(clock),
            options=options,
            who=f"{socket.gethostname()}:{os.getpid()}",
        )

    def earlier_views(self, epoch: str, after: str | None) -> EarlierViews:
        """Return the records of other views in the control topic behind a position. Raises Unreachable."""
        return read_views(TopicReader(self._client, self._topics.control, after), epoch)

    def letters(self, task: str, spans: Sequence[LetterSpan], expected: int) -> Iterator[DeadLetter]:
        """Read the task's dead letters as read_dead_letters does."""
        return read_dead_letters(self._client, self._topics, task, spans, expected)

    def close(self) -> None:
        self._opened.close()
