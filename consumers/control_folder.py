"""The fold of the control topic into the registry, so that a client that died half-way loses nothing."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from consumers.folder import FoldSettings, Held, IdleWatch, OpenReader, Record, run_while_held
from dispatcher.control import ControlRecord, decode_control

_log = logging.getLogger(__name__)


class ControlView(Protocol):
    """The registry, as this fold needs it."""

    def control_cursor(self) -> str | None: ...

    def apply(self, position: str, record: ControlRecord) -> Sequence[str]:
        """Applies one record; says which tasks are complete by now. Idempotent; older never undoes newer."""
        ...

    def move_control_cursor(self, expected: str | None, to: str, epoch: str) -> bool:
        """False, and nothing changed, if the cursor stands elsewhere than expected or the view is another by now."""
        ...


class ControlFolder:
    """Applies every record of the control topic to the registry and keeps the cursor there.

    Records are applied one by one and the cursor is moved after them. It is moved only in the epoch (None: there is no
    view) that was there before, so that a view emptied in between never skips what it lost.
    """

    def __init__(
        self,
        epoch: Callable[[], str | None],
        view: ControlView,
        open_reader: OpenReader,
        held: Held,
        finished: Callable[[list[str]], None],
        settings: FoldSettings,
    ) -> None:
        self._epoch = epoch
        self._view = view
        self._open_reader = open_reader
        self._held = held
        self._finished = finished
        self._settings = settings

    def run(self, stop: threading.Event) -> None:
        """Returns when `stop` is set. A server that is gone is waited for."""
        run_while_held(self._term, self._held, stop, self._settings.pause_s, "fold of control")

    def _term(self, stop: threading.Event) -> None:
        epoch = self._epoch()
        if epoch is None:
            stop.wait(self._settings.poll_s)
            return
        cursor = self._view.control_cursor()
        reader = self._open_reader(cursor)
        idle = IdleWatch(self._settings)
        try:
            while self._held() and not stop.is_set():
                records = reader.read(self._settings.batch, self._settings.poll_s)
                if records:
                    self._apply(records)
                    if not self._view.move_control_cursor(cursor, records[-1].position, epoch):
                        return
                    cursor = records[-1].position
                elif idle.due() and self._view.control_cursor() != cursor:
                    return
        finally:
            reader.close()

    def _apply(self, records: Sequence[Record]) -> None:
        finished: list[str] = []
        for record in records:
            decoded = _decode(record)
            if decoded is not None:
                finished.extend(self._view.apply(record.position, decoded))
        if finished:
            self._finished(finished)


def _decode(record: Record) -> ControlRecord | None:
    """None for what this version cannot read: it is named in the log and passed over, or the fold would stand still."""
    try:
        decoded: ControlRecord = decode_control(record.body)
    except msgspec.MsgspecError as error:
        _log.error("control record %s is not readable (%s); upgrade the workers", record.position, error)
        return None
    return decoded
