"""Captures that are taken by themselves: at most one in ten minutes."""

import logging
import threading
from pathlib import Path

from backends.system_clock import SystemClock
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError
from estate.capture.incidents import Incident
from fairlane.estate.capture.archive import forget_old
from fairlane.estate.capture.take import CaptureTaker
from fairlane.settings import Settings

SPAN_MS = 600_000
"""Shortest time between two captures that are taken by themselves."""
_AGAIN_MS = 60_000
"""Time until a capture that failed is tried again."""
_log = logging.getLogger(__name__)


def captures_folder(settings: Settings) -> Path:
    return settings.home_folder / "captures"


class AutomaticCaptures:
    """Takes captures in a thread of its own. `report` returns at once and never raises.

    Only the elected guard reports. Times are those of the monotonic clock: setting a clock changes nothing.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._busy = threading.Lock()
        self._thread: threading.Thread | None = None
        self._not_before_s = float("-inf")
        """Monotonic time before which this process takes none."""

    def report(self, incident: Incident) -> None:
        """Take a capture of an incident, unless one was taken in the last ten minutes."""
        if self._clock.monotonic_s() < self._not_before_s or not self._busy.acquire(blocking=False):
            return
        self._thread = threading.Thread(target=self._run, args=(incident,), name="capture", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until the capture that is under way has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self, incident: Incident) -> None:
        try:
            self._take(incident)
        except Exception:  # the process that watches goes on, whatever a capture meets
            _log.exception("The capture failed (%s)", incident.reason)
            self._rest(_AGAIN_MS)
        finally:
            self._busy.release()

    def _take(self, incident: Incident) -> None:
        _log.warning("Taking a capture of the estate: %s", incident.reason)
        try:
            folder = captures_folder(self._settings)
            path = CaptureTaker(self._settings, self._clock).take(incident, folder)
        except FairlaneError as error:
            _log.error("No capture was taken (%s). %s", incident.reason, error)
            self._rest(_AGAIN_MS)
            return
        self._rest(SPAN_MS)
        forget_old(folder, path)
        _log.warning("The capture is in %s (%s)", path, incident.reason)

    def _rest(self, ms: int) -> None:
        self._not_before_s = self._clock.monotonic_s() + ms / 1000
