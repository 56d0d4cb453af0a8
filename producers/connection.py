"""Puts a client together: Pulsar, Redis, and what a submission needs of them."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

from backends.epochs import Epochs
from backends.redis_view import open_view
from backends.registry import Registry
from backends.workers import Workers
from dispatcher.errors import Unreachable
from dispatcher.ports import DeadLetter
from producers.known_tasks import KnownTasks
from producers.ports import Services
from producers.settings import ConnectionSettings

if TYPE_CHECKING:
    from producers.pulsar_connection import PulsarConnection


class Connection:
    """What a client works with. Each server is met when it is first needed: looking at tasks needs Redis alone."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._view = open_view(settings.redis)
        self._lock = threading.RLock()
        self._opened = ExitStack()
        self._opened.enter_context(closing(self._view))
        self._pulsar: PulsarConnection | None = None
        self._services: Services | None = None
        self.registry = Registry(self._view)
        self.epochs = Epochs(self._view)
        self.known_tasks = KnownTasks(self.registry, self.epochs)
        self.workers = Workers(self._view)

    def services(self) -> Services:
        """For submissions and changes. Raises as check_form, Unreachable if Pulsar does not answer, NotFound if it is
        not provisioned."""
        with self._lock:
            if self._services is None:
                self.check_form()
                self._services = self._connected().services(self.registry, self.epochs)
            return self._services

    def check_form(self) -> None:
        """Raises Refused, NotReady: the view is kept by workers of another version. Without Redis nothing is said:
        what needs it says so."""
        with suppress(Unreachable):
            self.epochs.check_form()

    def letters(self, task: str) -> Iterator[DeadLetter]:
        """The task's dead letters so far. Raises as `services`."""
        return self._connected().letters(task)

    def close(self) -> None:
        """Lets go of both servers."""
        with self._lock:
            self._opened.close()

    def _connected(self) -> "PulsarConnection":
        from producers.pulsar_connection import PulsarConnection  # Pulsar's clients take long to import

        with self._lock:
            if self._pulsar is None:
                self._pulsar = self._opened.enter_context(closing(PulsarConnection(self._settings)))
            return self._pulsar
