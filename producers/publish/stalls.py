"""Notes submissions that get no receipts from Pulsar, so that the state of the estate is captured while they wait."""

import logging
import threading
from collections.abc import Callable

from backends.redis.estate.incidents import IncidentNote
from dispatcher.model.errors import FairlaneError
from dispatcher.wire.control import TaskRecord

OnSilence = Callable[[float], None]
"""Called by senders with the seconds since the last receipt that is owed. It runs under a lock: it must not block."""
_log = logging.getLogger(__name__)


def unnoticed(_silent_s: float) -> None:
    """Do nothing about silence."""


class StallNotes:
    """Notes stalls of submissions: in the log, and in Redis for `fairlane estate guard`, which takes the capture."""

    def __init__(self, note: Callable[[IncidentNote], object], after_s: float, who: str) -> None:
        """note: stores a note; may block and raise FairlaneError. after_s: how long a stall is before it is noted, and
        how long until it is noted again. who: this process, as host:pid."""
        self._note = note
        self._after_s = after_s
        self._who = who

    def of(self, record: TaskRecord) -> OnSilence:
        """Return what notes the stalls of one submission."""
        next_s = self._after_s

        def on_silence(silent_s: float) -> None:
            nonlocal next_s
            if silent_s < self._after_s:
                next_s = self._after_s
            elif silent_s >= next_s:
                next_s = silent_s + self._after_s
                threading.Thread(target=self._report, args=(record, silent_s), name="note stall", daemon=True).start()

        return on_silence

    def _report(self, record: TaskRecord, silent_s: float) -> None:
        reason = f"submission of task {record.task} got no receipt from Pulsar for {silent_s:.0f} s"
        _log.warning(
            "The %s. `fairlane estate guard` captures the state of the estate if it runs; by hand: "
            "fairlane estate capture --task %s",
            reason,
            record.task,
        )
        note = IncidentNote(
            reason=reason, task=record.task, lane=record.lane, partitions=record.partitions, who=self._who
        )
        try:
            self._note(note)
        except FairlaneError as error:
            _log.info("The stall is not noted in Redis: %s", error)
