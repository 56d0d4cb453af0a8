"""Follows the control topic itself, so that a worker knows what may be sent also while Redis is gone."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from backends.task_rows import LiveTask
from backends.topic_reader import Record
from consumers.folder import OpenReader
from dispatcher.clock import Clock
from dispatcher.control import decode_control, override_message
from dispatcher.errors import FairlaneError, Unreachable
from dispatcher.known_tasks import KnownTask, KnownTasks

_log = logging.getLogger(__name__)
_READ, _READ_S, _READ_CLOSELY_S, _PAUSE_S = 500, 0.5, 0.05, 0.5


class View(Protocol):
    """The registry, as a beginning. All raise Unreachable."""

    def control_cursor(self) -> str | None: ...

    def live(self) -> list[LiveTask]: ...


class Reader(Protocol):
    def read(self, max_records: int, timeout_s: float) -> list[Record]: ...

    def at_end(self) -> bool: ...

    def close(self) -> None: ...


class ControlFollower:
    """Implements dispatcher.known_tasks.Controls. One thread; begins with what the registry holds and the cursor up to
    which that is folded, and reads on from there without it. It waits for a view that is complete: then nothing that is
    restated behind the cursor is news."""

    def __init__(
        self,
        view: View,
        complete: Callable[[], bool],
        settings: Callable[[], Mapping[str, str]],
        open_reader: OpenReader,
        clock: Clock,
    ) -> None:
        """complete: whether the view is; settings: those of the service that it holds, by field. Both raise
        Unreachable."""
        self._view = view
        self._complete = complete
        self._settings = settings
        self._open_reader = open_reader
        self._clock = clock
        self._known = KnownTasks()
        self._closely = threading.Event()
        self._until_s = float("-inf")

    def attend(self, closely: bool) -> None:
        if closely:
            self._closely.set()
        else:
            self._closely.clear()

    def read_until_s(self) -> float:
        return self._until_s

    def task(self, task: str) -> KnownTask | None:
        return self._known.task(task)

    def setting(self, field: str) -> str:
        return self._known.setting(field)

    def run(self, stop: threading.Event) -> None:
        """Returns when `stop` is set. A server that is gone is waited for."""
        reader: Reader | None = None
        while not stop.is_set():
            try:
                reader = reader or self._begin()
                if reader is None:
                    stop.wait(_PAUSE_S)
                else:
                    self._read(reader)
            except Unreachable as error:
                _log.debug("following the control topic waits: %s", error)
                stop.wait(_PAUSE_S)
        if reader is not None:
            reader.close()

    def _begin(self) -> Reader | None:
        """The cursor first: what is folded after it was read is read again, which changes nothing. None: the view is
        not complete, or was emptied meanwhile."""
        if not self._complete():
            return None
        cursor = self._view.control_cursor()
        tasks = {task.id: known_task(task) for task in self._view.live()}
        self._known.fill(tasks, self._settings())
        if not self._complete():
            return None
        reader: Reader = self._open_reader(cursor)  # type: ignore[assignment]  # a TopicReader, which can do more
        return reader

    def _read(self, reader: Reader) -> None:
        closely, asked_s = self._closely.is_set(), self._clock.monotonic_s()
        records = reader.read(_READ, _READ_CLOSELY_S if closely else _READ_S)
        for record in records:
            self._apply(record)
        if closely and not records and reader.at_end():
            self._until_s = asked_s

    def _apply(self, record: Record) -> None:
        try:
            self._known.apply(decode_control(record.body))
        except (ValueError, FairlaneError) as error:
            _log.error("control record %s is not readable (%s); upgrade the workers", record.position, error)


def known_task(task: LiveTask) -> KnownTask:
    return KnownTask(
        task.id,
        task.app,
        task.channel,
        task.lane,
        task.shared,
        task.tier,
        task.weight,
        task.cap,
        paused=task.state == "paused",
        cancelled=task.cancelled,
        start_ms=task.start_ms,
        expires_ms=task.expires_ms,
        hold=task.hold,
        sealed=task.sealed,
        override=override_message(task.override) if task.override else b"",
    )
