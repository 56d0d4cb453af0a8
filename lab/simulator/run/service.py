"""The service of one run, without its workers: a world, its settings and tasks, and work one worker does for all."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from backends.redis.registry.task_rows import TASK_VIEW
from dispatcher.model.pools import TOTAL, Cap
from dispatcher.model.service_settings import Setting
from dispatcher.model.task_control import Control
from dispatcher.model.tier import Tier
from dispatcher.model.view import TaskView
from dispatcher.ports import Ledger
from dispatcher.wire.control import FORMAT, Checkpoint, ControlRecord, Sealed
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest
from dispatcher.wire.topics import Topics
from lab.laws import CapSince
from lab.simulator.findings.run_log import RunLog
from lab.simulator.run.agenda import Agenda, SimClock
from lab.simulator.run.audience import SimTask
from lab.simulator.run.network import Network
from lab.simulator.run.ports import SimDeadLetters
from lab.simulator.run.registry import LaneDirectory
from lab.simulator.scenario.scenario import Scenario
from lab.simulator.world import World

HOUSEKEEPING_S = 1.0
PUBLISH_S = 0.1
"""Interval between two parts of a task with a publish rate."""
MakeLedger = Callable[[World], Ledger]


class WatchedLedger:
    """Implements dispatcher.ports.Ledger, and reports every call that arrives to the journal."""

    def __init__(self, ledger: Ledger, journal: RunLog) -> None:
        self._ledger = ledger
        self._journal = journal

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        answer = self._ledger.lease(request)
        self._journal.leased(request, answer)
        return answer


class SimService:
    """The simulated service. `lanes_changed` is called when workers should read the lanes again."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        excused: Callable[[str, int], bool],
        lanes_changed: Callable[[], None],
        make_ledger: MakeLedger,
    ) -> None:
        self.agenda = Agenda()
        self.clock = SimClock(self.agenda)
        self.world = World(self.clock, Topics(outcome_partitions=1))
        self.topics, self.broker, self.log = self.world.topics, self.world.broker, self.world.outcomes
        self.views: dict[str, TaskView] = {}
        """As of the last change, by task."""
        self.journal = RunLog(self.agenda, lambda task: self.views[task].tier, self._is_capped, excused)
        self.ledger = WatchedLedger(make_ledger(self.world), self.journal)
        self.network = Network(self.agenda, Random(seed), scenario.faults)
        self.dead_letters = SimDeadLetters(self.network)
        self.lanes = LaneDirectory(self.views, self.topics, seed)
        self.tasks: dict[str, SimTask] = {}
        self.accepted: dict[str, int] = {}
        """Targets published, by task. An expired or cancelled task takes no more."""
        self.ended: dict[str, int] = {}
        """When a task's end was written, in us, by task."""
        self.caps: dict[str, list[CapSince]] = {}
        self._scenario = scenario
        self._lanes_changed = lanes_changed
        self._folding = False
        self._paused: dict[str, bool] = {}
        """Whether a channel is paused, by channel."""
        for lane in self.topics.standing_lanes():
            self.broker.create(lane)
        self._announce_settings()
        self.agenda.after(HOUSEKEEPING_S, self._do_housekeeping)

    # ------------------------------------------------------------- settings of the service
    def _announce_settings(self) -> None:
        scenario = self._scenario
        self.set_tiers(scenario.tiers)
        self.set_cap(TOTAL, scenario.capacity)
        for name, cap in scenario.caps.named().items():
            self.set_cap(name, cap)
        if scenario.sharing != "tasks":
            self._set("sharing", scenario.sharing)
        for app, weight in scenario.app_weights.items():
            self._set("app_weight", weight, app)

    def set_tiers(self, weights: Mapping[Tier, float]) -> None:
        self._set("tiers", weights)
        self.journal.gaps.set_weights({str(tier): weight for tier, weight in weights.items()})

    def set_cap(self, name: str, cap: Cap) -> None:
        """Set the cap of `total` or of a pool (channel/NAME, app/NAME, app_channel/APP/NAME)."""
        kind, pool = ("capacity", "") if name == TOTAL else ("cap", name)
        self._set(kind, cap, pool)
        self._note_cap(name, cap)
        if name == TOTAL:
            self.journal.gaps.set_capacity(cap.rate, cap.allowance)

    def pause_channel(self, name: str, *, paused: bool) -> None:
        self._set("channel_paused", paused, name)
        self._paused[name] = paused
        for task in self.tasks.values():
            if task.spec.channel == name:
                self._block(task.name, "channel paused", blocked=paused)

    def _set(self, kind: str, value: object, name: str = "") -> None:
        self.world.write(Setting.of(kind, value, name).record(self.clock.wall_ms()))

    def _is_capped(self, task: str) -> bool:
        """Return whether a task is capped, by itself or together with others."""
        shared = [self.caps[pool][-1].cap for pool in self.tasks[task].spec.pools if pool in self.caps]
        return bool(self.views[task].cap) or any(cap.rate for cap in shared)

    def _note_cap(self, name: str, cap: Cap) -> None:
        self.caps.setdefault(name, []).append(CapSince(self.agenda.now_us, cap))

    # ------------------------------------------------------------- tasks
    def submit(self, task: SimTask) -> None:
        """Submit a task: record, lane, envelopes (at once, or steadily), seal."""
        now_ms = self.clock.wall_ms()
        self.tasks[task.name] = task
        self.broker.create(task.lane)
        record = task.record(now_ms, self.topics)
        self._write(task.name, record)
        self._note_cap(f"task/{task.name}", task.spec.cap)
        self._block(task.name, "channel paused", blocked=self._paused.get(task.spec.channel, False))
        self.lanes.add(task)
        self._lanes_changed()
        self._publish(task, 0, record.expires_ms)

    def _publish(self, task: SimTask, first_target: int, expires_ms: int) -> None:
        spec, chunk = task.spec, task.spec.envelope_targets
        remaining = spec.targets - first_target
        part = remaining
        if spec.publish_rate:
            part = min(remaining, max(1, int(spec.publish_rate * PUBLISH_S) // chunk) * chunk)
        if first_target and self._is_over(task.name):
            return
        envelopes = list(task.envelopes(first_target, part, self.clock.wall_ms(), expires_ms))
        self.broker.publish(task.lane, envelopes)
        self.journal.publish(task.name, self.views[task.name].tier, part, chunk)
        published = self.accepted[task.name] = first_target + part
        sequence = -(-published // chunk)
        self.world.write(
            Checkpoint(
                format=FORMAT,
                task=task.name,
                writer="0",
                sequence=sequence,
                targets=published,
                refused=0,
                consumed=published,
                digest="digest",
            )
        )
        copies = [envelope for envelope in envelopes if self.network.hits(self._scenario.faults.copies)]
        if copies:
            self.network.carry(lambda: self.broker.publish(task.lane, copies), 1, 2_000)
        if remaining > part:
            every_s = max(PUBLISH_S, part / spec.publish_rate)
            self.agenda.after(every_s, lambda: self._publish(task, first_target + part, expires_ms))
        else:
            self.network.carry(lambda: self._seal(task), 5, 20)

    def _seal(self, task: SimTask) -> None:
        record = Sealed(
            format=FORMAT, task=task.name, targets=task.spec.targets, refused=0, digest="digest", writers=["0"]
        )
        self._finish_soon(self.world.write(record))

    def _is_over(self, task: str) -> bool:
        """Return whether the task takes no more envelopes."""
        view = self.world.registry.tasks.task(task)
        return view is None or view.ended or view.closed

    def control(self, name: str, control: Control) -> None:
        """Change a control of a task. A task in a shared lane gets a lane of its own."""
        if name not in self.tasks or name in self.ended:
            return
        leaves = self.views[name].shared and control.needs_own_lane
        lane = Control("lane", self.topics.own_lane(name))
        for each in (lane, control) if leaves else (control,):
            self._write(name, each.record(name, self.clock.wall_ms()))
        if leaves:
            self.broker.create(lane.value)
            self.lanes.move(name, lane.value)
        if control.name in ("paused", "cancelled"):
            self._block(name, control.name, blocked=control.value)
        if control.name == "cap":
            self._note_cap(f"task/{name}", control.value)
        self.lanes.changed()
        self._lanes_changed()

    def _write(self, task: str, record: ControlRecord) -> None:
        """Write a record of a task, and read the task as the registry now shows it."""
        self.world.write(record)
        [self.views[task]] = self.world.registry.tasks.named([task], TASK_VIEW)

    def _block(self, task: str, why: str, *, blocked: bool) -> None:
        if blocked:
            self.journal.blocked[task].add(why)
        else:
            self.journal.blocked[task].discard(why)

    # ------------------------------------------------------------- work that one worker does for all
    def stored(self) -> None:
        """Schedule a fold: a record is in the outcome topic. Records that arrive in between are folded with it."""
        if not self._folding:
            self._folding = True
            self.network.carry(self._fold_all, 3, 10)

    def _fold_all(self) -> None:
        self._folding = False
        self._finish_soon(self.world.fold_outcomes())

    def _finish_soon(self, tasks: list[str]) -> None:
        for task in tasks:
            self.network.carry(partial(self._finish, task), 10, 30)

    def _finish(self, task: str) -> None:
        if self.world.finisher.finish([task]):
            self.ended[task] = self.agenda.now_us
            self.lanes.remove(task)
            self._lanes_changed()

    def _do_housekeeping(self) -> None:
        before = len(self.log.partitions[0])
        self.world.do_housekeeping()
        if len(self.log.partitions[0]) > before:
            self.stored()
        self.agenda.after(HOUSEKEEPING_S, self._do_housekeeping)
