"""The front door of one process: its connections, who is known there, and the desks for one request."""

from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import Self

from backends.settings import ConnectionSettings
from backends.system_clock import SystemClock
from dispatcher.access.principal import Principal
from dispatcher.model.errors import LimitReached, Unreachable
from producers.connection import Connection
from producers.desk.access_book import CHANGES_S, AccessBook
from producers.desk.board.board import Board
from producers.desk.board_desk import BoardDesk
from producers.desk.history import HistoryWriter
from producers.desk.letter_desk import LetterDesk
from producers.desk.operator_desk import OperatorDesk
from producers.desk.request_places import RequestPlaces
from producers.desk.sessions import Sessions
from producers.desk.task_desk import TaskDesk


class Desks:
    """The desks for one request of a principal."""

    def __init__(
        self, principal: Principal, connection: Connection, book: AccessBook, board: Board, request: str
    ) -> None:
        self.principal = principal
        self._given = (principal, connection, book, board, request)

    @cached_property
    def tasks(self) -> TaskDesk:
        """Tasks."""
        return TaskDesk(*self._given)

    @cached_property
    def board(self) -> BoardDesk:
        """Lists and events of tasks."""
        return BoardDesk(*self._given)

    @cached_property
    def letters(self) -> LetterDesk:
        """Failed targets."""
        return LetterDesk(*self._given)

    @cached_property
    def service(self) -> OperatorDesk:
        """The whole service."""
        return OperatorDesk(*self._given)


class FrontDoor:
    """Connections and access of one process. Use it in a `with` statement; it is safe for threads."""

    def __init__(self, settings: ConnectionSettings) -> None:
        """Raises NotConfigured."""
        self._connection = connection = Connection(settings)
        self.book = AccessBook(connection.access, connection.epochs.ready, SystemClock())
        self._places = RequestPlaces(connection.access.take_requests, SystemClock())
        self.board = Board.open(settings.redis, SystemClock())
        self.sessions = Sessions(connection.sessions, self.book, SystemClock())
        self.pulsar = connection.folds
        self._history = HistoryWriter(connection, self.board)

    def __enter__(self) -> Self:
        self.book.start()
        self.board.start()
        self.pulsar.start()
        self._history.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._history.close()
        self.pulsar.close()
        self.board.close()
        self.book.close()
        self._connection.close()

    def desks(self, principal: Principal, request: str) -> Desks:
        """Return the desks for one request of a principal."""
        return Desks(principal, self._connection, self.book, self.board, request)

    def principal(self, token: str) -> Principal:
        """Return who asks with a key. Raises NoKey, NotReady."""
        return self.book.principal(token)

    def take_request(self, principal: Principal) -> None:
        """Count a request of an app. Raises LimitReached beyond its policy; without Redis nothing is counted, and it
        is not waited for again."""
        app = principal.app
        if not app or self.book.age_s > CHANGES_S:
            return
        maximum = self.book.policy(app).requests_s
        with suppress(Unreachable):
            if not self._places.use(app, maximum):
                raise LimitReached(
                    f"The policy of app {app} allows {maximum:,} requests a second.", "Try again in a second."
                )

    def check_ready(self) -> None:
        """Raise NotReady or Unreachable unless requests can be served: the view is complete, and keys are known."""
        self.book.check_age(CHANGES_S)
        try:
            self._connection.epochs.check_counts()
        except Unreachable:  # its text has addresses, and anybody may ask
            raise Unreachable("Redis does not answer.") from None
