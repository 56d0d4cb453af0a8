"""Stop tasks whose message the provider refuses for everybody."""

import logging
import queue
import threading
from dataclasses import dataclass, field

from backends.redis.registry.registry import ControlView
from backends.redis.registry.tasks import TaskTable
from dispatcher.channels.guards.trouble import FIRST_ANSWERS, MessageRefusal
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError
from dispatcher.model.task_control import Control
from dispatcher.model.view import ENDED_STATES, TaskView
from dispatcher.ports import ControlLog

CHECK_S = 1.0
"""Wait between two looks at a task of which not all answers are counted yet, or while a server is gone."""
GIVE_UP_S = 120.0
"""How long a task is looked at. Later the first answers say nothing."""
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class TaskStops:
    """Stops tasks that this worker has a reason to stop. Several workers may: the first reason in the topic counts.

    This worker has seen only its own answers. So the view must show as many failures, and no success of any worker.
    """

    tasks: TaskTable
    view: ControlView
    control: ControlLog
    clock: Clock
    inbox: "queue.Queue[MessageRefusal]"
    """Reports of the channels."""
    _open: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By task: the reason, and when to give up."""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set."""
        while not stop.is_set():
            self.round()
            stop.wait(CHECK_S)

    def round(self) -> None:
        """Stop the tasks for which the counts are there."""
        until_s = self.clock.monotonic_s() + GIVE_UP_S
        while not self.inbox.empty():
            task, reason = self.inbox.get()
            self._open.setdefault(task, (reason, until_s))
        self._open = {task: entry for task, entry in self._open.items() if not self._is_done(task, *entry)}

    def _is_done(self, task: str, reason: str, until_s: float) -> bool:
        try:
            view = self.tasks.task(task)
            if view is None or view.state in ENDED_STATES or view.targets.sent:
                return True
            if view.targets.failed >= FIRST_ANSWERS:
                self._stop(view, reason)
                return True
        except FairlaneError as error:
            _log.debug("task %s is not stopped yet: %s", task, error)
        return self.clock.monotonic_s() >= until_s

    def _stop(self, view: TaskView, reason: str) -> None:
        why = f"the provider refuses its message for everybody; the first {FIRST_ANSWERS} answers: {reason}"
        record = Control.of("stopped", why).record(view.id, self.clock.wall_ms())
        self.view.apply(self.control.append(record), record)
        _log.warning("task %s of app %s on channel %s is stopped: %s", view.id, view.app, view.channel, why)
