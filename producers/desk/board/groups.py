"""Live tasks in groups that are served alike: figures of the service cost as much with 100,000 tasks as with ten."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from operator import add, attrgetter
from typing import NamedTuple

from dispatcher.analysis.rates import ForecastTask, targets_per_request
from dispatcher.model.tier import MILLI
from dispatcher.model.view import Globals, TaskView


class TaskGroup(NamedTuple):
    """Tasks of one tier, app, channel and state. Those with caps of their own are a group of their own."""

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
    expected: int
    """Their targets that are expected, and not published yet."""
    settled: int
    """Their targets with an outcome."""
    given_up: int
    """Their targets that failed or expired."""
    chunks: int
    """Targets of an envelope of each, added up."""

    def plus(self, other: "TaskGroup") -> "TaskGroup":
        """Return the group with the tasks of another one."""
        return TaskGroup._make((*self[:7], *map(add, self[7:], other[7:])))

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
            tasks=self.tasks,
            chunk=self.chunks / self.tasks,
        )


_likeness = attrgetter("tier", "app", "channel", "chunk", "cap", "state", "hold_until_sealed", "sealed")
_SUMMED = tuple(
    map(attrgetter, ("weight", "cap", "rate", "targets.pending", "targets.total", "targets.failed", "targets.expired"))
)


def grouped(tasks: Iterable[TaskView]) -> list[TaskGroup]:
    """Return the groups of tasks. With 100,000 it takes a tenth of a second."""
    alike = defaultdict[tuple[str, str, str, int, int, str, bool, bool], list[TaskView]](list)
    for task in tasks:
        alike[_likeness(task)].append(task)
    groups: dict[tuple[object, ...], TaskGroup] = {}
    for (tier, app, channel, chunk, cap, state, holds, sealed), some in alike.items():
        weight, caps, rate, pending, total, failed, expired = (sum(map(value, some)) for value in _SUMMED)
        state = "held" if state == "running" and holds and not sealed else state
        key = tier, app, channel, targets_per_request(channel, chunk), cap > 0, state
        group = TaskGroup(
            *key, some[0].id, len(some), weight, caps, rate, pending, 0 if sealed else sum(map(unpublished, some)),
            total - pending, failed + expired, chunk * len(some),
        )  # fmt: skip
        groups[key] = groups[key].plus(group) if key in groups else group
    return list(groups.values())


def unpublished(task: TaskView) -> int:
    """Return the targets of a task that are announced, and not published yet."""
    return 0 if task.closed or task.sealed else max(0, task.expected_targets - task.targets.total)


def announced(groups: Iterable[TaskGroup]) -> Counter[str]:
    """Return by app the targets that are expected, and not published yet."""
    found = Counter[str]()
    for group in groups:
        found[group.app] += group.expected
    return found


def merged(groups: Iterable[TaskGroup], settings: Globals) -> list[TaskGroup]:
    """Return the groups that may be sent, those of several apps together if the settings treat them alike."""
    found: dict[tuple[object, ...], TaskGroup] = {}
    for group in groups:
        if group.state == "running" and group.pending and not settings.stops(group.channel, group.app):
            pools = *settings.pools_of(group.app, group.channel), *([group.app] if settings.sharing == "apps" else [])
            key = group.tier, group.channel, group.per_request, group.is_capped, pools
            found[key] = found[key].plus(group) if key in found else group
    return list(found.values())
