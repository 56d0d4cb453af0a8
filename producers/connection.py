"""Puts a client together: Pulsar, Redis, and what a submission needs of them."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pulsar

from backends import pulsar_client, redis_view
from backends.control_topic import ControlTopic
from backends.dead_letter_topic import read_dead_letters
from backends.epochs import Epochs
from backends.pulsar_admin import PulsarAdmin
from backends.registry import Registry
from backends.system_clock import SystemClock
from backends.workers import Workers
from dispatcher.ports import DeadLetter
from producers.history import KnownSubmissions
from producers.ids import id_maker
from producers.known_tasks import KnownTasks
from producers.lanes import PulsarLanes
from producers.ports import Services
from producers.settings import ConnectionSettings


class Connection:
    """What a client works with. Each server is met when it is first needed: looking at tasks needs Redis alone."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._topics = pulsar_client.topics(settings.pulsar)
        self._view = redis_view.open_view(settings.redis)
        self._lock = threading.RLock()
        self._opened = ExitStack()
        self._opened.enter_context(closing(self._view))
        self._client: pulsar.Client | None = None
        self._services: Services | None = None
        self.registry = Registry(self._view)
        self.epochs = Epochs(self._view)
        self.known_tasks = KnownTasks(self.registry, self.epochs)
        self.workers = Workers(self._view)

    def services(self) -> Services:
        """For submissions and changes. Raises Unreachable if Pulsar does not answer, NotFound if it is not
        provisioned."""
        with self._lock:
            if self._services is None:
                self._services = self._connect()
            return self._services

    def letters(self, task: str) -> Iterator[DeadLetter]:
        """The task's dead letters so far. Raises as `services`."""
        return read_dead_letters(self._pulsar(), self._topics, task)

    def close(self) -> None:
        """Lets go of both servers."""
        with self._lock:
            self._opened.close()

    def _pulsar(self) -> pulsar.Client:
        with self._lock:
            if self._client is None:
                self._client = pulsar_client.connect(self._settings.pulsar)
                self._opened.callback(pulsar_client.close, self._client)
            return self._client

    def _connect(self) -> Services:
        client, clock, options = self._pulsar(), SystemClock(), self._settings.producer
        control = self._opened.enter_context(closing(ControlTopic(client, self._topics)))
        admin = self._opened.enter_context(closing(PulsarAdmin(self._settings.pulsar)))
        return Services(
            control=control,
            registry=KnownSubmissions(self.registry, self.epochs, control.reader),
            lanes=PulsarLanes(client, admin, options),
            topics=self._topics,
            clock=clock,
            new_id=id_maker(clock),
            options=options,
        )
