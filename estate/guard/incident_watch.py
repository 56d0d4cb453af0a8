"""Has each incident captured once: those that lanes and tasks show, and the slow nodes that the guard reports."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from backends.pulsar.broker_lanes import BrokerLanes, answered_lanes
from backends.pulsar.client import topics
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import IDLE_TASK
from backends.redis.view import RedisView
from backends.redis.workers import Workers
from dispatcher.analysis.served import Served
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError
from dispatcher.model.view import TaskView
from estate.rules.incidents import STUCK_MS, Incident, blocked_lanes, joined, stuck_lanes
from fairlane.settings import Settings

LANES_EVERY_S = 10.0
"""How often lanes and tasks are looked at. Brokers renew their statistics every 10 to 60 s."""
OVER_S = 600.0
"""An incident that was not seen for this long is over. What comes back sooner is the same one, and not captured again:
a node that is slow now and then would push the archive of its first time out."""
_ANSWER_S = 5.0
_log = logging.getLogger(__name__)


class IncidentWatch:
    """Watches lanes and tasks. Safe for threads."""

    def __init__(
        self, settings: Settings, view: RedisView, clock: Clock, take_capture: Callable[[Incident], Path]
    ) -> None:
        """Raises NotConfigured; Unreachable if a server of the local stack has ended."""
        quick = {"operation_timeout_s": _ANSWER_S}
        self._lanes = BrokerLanes(settings.pulsar.model_copy(update=quick), topics(settings.pulsar), clock)
        self._clock, self._take_capture = clock, take_capture
        self._registry, self._workers = Registry(view), Workers(view)
        self._lock, self._taking = threading.Lock(), threading.Lock()
        self._seen_s: dict[tuple[str, ...], float] = {}
        """When each subject of an incident was last seen."""

    def close(self) -> None:
        self._lanes.close()

    def run(self, stop: threading.Event, active: Callable[[], bool]) -> None:
        """Look again and again until `stop` is set, while `active` says so, whether or not servers answer."""
        trouble = ""
        while not stop.wait(LANES_EVERY_S):
            try:
                if active():
                    self.look()
                trouble = ""
            except FairlaneError as error:
                if error.cause != trouble:
                    _log.warning("Incidents cannot be watched for now: %s", error)
                trouble = error.cause

    def look(self) -> None:
        """Report what lanes and tasks show now. Raises Unreachable, and Refused if the role may not ask brokers for
        their statistics."""
        answers = self._lanes.read()
        lanes = [lane for _, lane in answered_lanes(answers)]
        all_answered = all(answer.lanes is not None for answer in answers)
        self.report(*blocked_lanes(lanes), *stuck_lanes(self._stuck(), lanes, all_answered=all_answered))

    def report(self, *incidents: Incident) -> None:
        """Have incidents captured that are new, all in one archive. Returns at once, and never raises."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            self._seen_s = {subject: at_s for subject, at_s in self._seen_s.items() if now_s - at_s < OVER_S}
            new = [incident for incident in incidents if incident.subject not in self._seen_s]
            self._seen_s |= dict.fromkeys((incident.subject for incident in incidents), now_s)
        if new:
            threading.Thread(target=self._take, args=(joined(new),), name="capture", daemon=True).start()

    def _take(self, incident: Incident) -> None:
        """Take a capture, after those that are being taken."""
        with self._taking:
            _log.warning("Taking a capture of the estate: %s", incident.reason)
            try:
                _log.warning("The capture is in %s (%s)", self._take_capture(incident), incident.reason)
            except FairlaneError as error:
                _log.error("No capture was taken (%s). %s", incident.reason, error)
            except Exception:  # the guard goes on, whatever a capture meets
                _log.exception("The capture failed (%s)", incident.reason)

    def _stuck(self) -> list[TaskView]:
        served, settings = Served.by(self._workers.workers()), self._registry.service.globals()
        idle = self._registry.tasks.live(IDLE_TASK)
        return [each.task for each in idle if each.is_stuck(served, settings, STUCK_MS)]
