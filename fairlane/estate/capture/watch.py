"""Watches for incidents that the lanes and tasks show, and has them captured."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from backends.pulsar.broker_lanes import BrokerLanes, answered_lanes
from backends.pulsar.client import topics
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import IDLE_TASK
from backends.redis.view import open_view
from backends.redis.workers import Workers
from backends.system_clock import SystemClock
from dispatcher.analysis.served import Served
from dispatcher.model.errors import FairlaneError
from dispatcher.model.view import TaskView
from estate.capture.incidents import STUCK_MS, Incident, blocked_lanes, joined, stuck_lanes
from fairlane.figures.stuck_tasks import is_stuck
from fairlane.settings import Settings

LANES_EVERY_S = 10.0
"""How often lanes and tasks are looked at. Brokers renew their statistics every 10 to 60 s."""
_ANSWER_S = 5.0
_LEAVE_S = 1.0
"""How long the end waits for a look that is under way; a broker may hang."""
_log = logging.getLogger(__name__)


class IncidentWatch:
    """Looks for incidents, and reports each look's as one."""

    def __init__(self, settings: Settings, report: Callable[[Incident], None]) -> None:
        """Raises NotConfigured; Unreachable if a server of the local stack has ended.

        report: must not block, as AutomaticCaptures.report.
        """
        quick = {"operation_timeout_s": _ANSWER_S}
        self._lanes = BrokerLanes(settings.pulsar.model_copy(update=quick), topics(settings.pulsar), SystemClock())
        self._view = open_view(settings.redis)
        self._registry = Registry(self._view)
        self._workers = Workers(self._view)
        self._report = report

    def close(self) -> None:
        self._lanes.close()
        self._view.close()

    def run(self, stop: threading.Event, active: Callable[[], bool] = lambda: True) -> None:
        """Look again and again until `stop` is set, while `active` says so, whether or not servers answer."""
        trouble = ""
        while not stop.wait(LANES_EVERY_S):
            try:
                if active():
                    self.look_at_lanes()
                trouble = ""
            except FairlaneError as error:
                if error.cause != trouble:
                    _log.warning("Incidents cannot be watched for now: %s", error)
                trouble = error.cause

    def look_at_lanes(self) -> list[Incident]:
        """Report what lanes and tasks show now, and return it. Raises Unreachable, and Refused if the role may not ask
        brokers for their statistics."""
        answers = self._lanes.read()
        lanes = [lane for _, lane in answered_lanes(answers)]
        all_answered = all(answer.lanes is not None for answer in answers)
        return self._reported([*blocked_lanes(lanes), *stuck_lanes(self._stuck(), lanes, all_answered=all_answered)])

    def _reported(self, found: list[Incident]) -> list[Incident]:
        if found:
            self._report(joined(found))
        return found

    def _stuck(self) -> list[TaskView]:
        served, settings = Served.by(self._workers.workers()), self._registry.service.globals()
        idle = self._registry.tasks.live(IDLE_TASK)
        return [one.task for one in idle if is_stuck(one, served, settings, STUCK_MS)]


@contextmanager
def incidents_watched(
    settings: Settings, report: Callable[[Incident], None], active: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Watch for incidents in a thread of its own until the end of the block. report, active: as of IncidentWatch.

    Raises NotConfigured; Unreachable if a server of the local stack has ended.
    """
    stop = threading.Event()
    with closing(IncidentWatch(settings, report)) as watch:
        thread = threading.Thread(target=watch.run, args=(stop, active), name="incidents", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_LEAVE_S)
