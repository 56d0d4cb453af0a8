"""The front door of one process: its connections, who is known there, and the desks for one request."""

from contextlib import suppress
from types import TracebackType
from typing import Self

from backends.settings import ConnectionSettings
from backends.system_clock import SystemClock
from dispatcher.access.principal import Caller, Principal
from dispatcher.model.errors import LimitReached, Unreachable
from producers.client import PushClient
from producers.connection import Connection
from producers.desk.access_book import AccessBook
from producers.desk.letter_desk import LetterDesk
from producers.desk.operator_desk import OperatorDesk
from producers.desk.task_desk import TaskDesk


class Desks:
    """What one principal may ask for in one request."""

    def __init__(self, principal: Principal, client: PushClient, book: AccessBook, request: str) -> None:
        self.principal = principal
        self.tasks = TaskDesk(principal, client, book, request)
        self.letters = LetterDesk(principal, client, book, request)
        self.service = OperatorDesk(principal, client, book, request)


class FrontDoor:
    """Connections and access of one process. Use it in a `with` statement; it is safe for threads."""

    def __init__(self, settings: ConnectionSettings, caller: Caller) -> None:
        """caller: the process itself, as records name it where no principal acts."""
        connection = Connection(settings)
        self._client = PushClient(connection, caller)
        self._epochs = connection.epochs
        self._access = connection.access
        self.book = AccessBook(connection.access, connection.epochs.ready, SystemClock())

    def __enter__(self) -> Self:
        self.book.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.book.close()
        self._client.close()

    def desks(self, principal: Principal, request: str) -> Desks:
        """Return the desks for one request of a principal."""
        return Desks(principal, self._client, self.book, request)

    def principal(self, token: str) -> Principal:
        """Return who asks with a key. Raises NoKey, NotReady."""
        return self.book.principal(token)

    def take_request(self, principal: Principal) -> None:
        """Count a request of an app. Raises LimitReached beyond its policy; without Redis nothing is counted."""
        app = principal.app
        if not app:
            return
        maximum = self.book.policy(app).requests_s
        with suppress(Unreachable):
            if not self._access.take_request(app, maximum):
                raise LimitReached(
                    f"The policy of app {app} allows {maximum:,} requests a second.", "Try again in a second."
                )

    def check_ready(self) -> None:
        """Raise NotReady or Unreachable unless requests can be served: the view is complete, and keys are known."""
        self.book.check_age(max_s=5.0)
        self._epochs.check_counts()
