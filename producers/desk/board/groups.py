"""Live tasks in groups that are served alike: figures of the service cost as much with 100,000 tasks as with ten."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dispatcher.analysis.rates import ForecastTask, targets_per_request
from dispatcher.model.tier import MILLI
from dispatcher.model.view import TaskView


class TaskGroup(NamedTuple):
    """Tasks of one tier, app and channel. Those with caps of their own are a group of their own."""

    tier: str
    app: str
    channel: str
    per_request: int
    """Targets of one request to their provider."""
    is_capped: bool
    state: str
    """As of the tasks; `held` for those that are not sent before their audience is complete."""
    name: str
    """The id of one of them."""
    tasks: int
    weight: float
    cap: int
    """The sum of their caps, in targets/s; 0 for none."""
    rate: float
    """Targets/s settled recently."""
    pending: int
    """Their targets without an outcome."""
    settled: int
    """Their targets with an outcome."""
    given_up: int
    """Their targets that failed or expired."""

    @property
    def job(self) -> ForecastTask:
        """The group as one task of a forecast."""
        return ForecastTask(
            id=self.name,
            app=self.app,
            channel=self.channel,
            tier=self.tier,
            weight=max(1, round(self.weight * MILLI)),
            pending=float(self.pending),
            cap=self.cap,
            on_hold=self.state != "running",
            per_request=self.per_request,
        )


def grouped(tasks: Iterable[TaskView]) -> Iterator[TaskGroup]:
    """Yield the groups of tasks."""
    members: dict[tuple[str, str, str, int, bool, str], list[TaskView]] = {}
    for task in tasks:
        state = "held" if task.hold_until_sealed and not task.sealed and task.state == "running" else task.state
        per_request = targets_per_request(task.channel, task.chunk)
        key = task.tier, task.app, task.channel, per_request, task.cap > 0, state
        members.setdefault(key, []).append(task)
    for key, some in members.items():
        counts = [task.targets for task in some]
        pending = sum(each.pending for each in counts)
        yield TaskGroup(
            *key,
            name=some[0].id,
            tasks=len(some),
            weight=sum(task.weight for task in some),
            cap=sum(task.cap for task in some),
            rate=sum(task.rate for task in some),
            pending=pending,
            settled=sum(each.total for each in counts) - pending,
            given_up=sum(each.failed + each.expired for each in counts),
        )
