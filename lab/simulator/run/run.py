"""One run of a scenario: when tasks arrive, and when workers join, leave, stall and die."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from typing import Any

from consumers.delivery.flows import busy_batches
from dispatcher.clock import Clock, ServiceClock
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.shared import EnginePorts
from dispatcher.model.errors import InvalidInput
from dispatcher.model.pools import TOTAL
from dispatcher.model.task_control import Control
from lab.simulator.run.agenda import SimClock
from lab.simulator.run.audience import tasks_of
from lab.simulator.run.ports import SimCourier, SimLanes, SimLeaseCaller, SimOutcomes, SimPublisher
from lab.simulator.run.service import MakeLedger, SimService
from lab.simulator.run.worker import Member, SimWorker
from lab.simulator.scenario.scenario import Scenario, ScenarioChange, WorkerSpec
from producers.control.task_changes import Changes

CHANGE_DELAY_MS = (5, 60)
"""Minimum and maximum time, in ms, that a change takes to reach a worker."""
NEVER_US = 1 << 62


@dataclass
class SimWorkers:
    """All workers of a run, including those that are gone."""

    live: dict[str, SimWorker] = field(default_factory=dict)
    count: int = 0
    crashes: int = 0
    stalls: int = 0
    stopped_us: dict[str, int] = field(default_factory=dict)
    """Until when a worker was last stalled; NEVER_US if it is dead."""


class SimulatedRun:
    """One run, which can run once.

    `source` is the name or path by which the scenario was found. `make_ledger` is for tests with a faulty ledger.
    """

    def __init__(self, scenario: Scenario, seed: int, make_ledger: MakeLedger | None = None, source: str = "") -> None:
        self.scenario = scenario
        self.seed = seed
        self.replay = replay(source or scenario.name, seed)
        self.workers = SimWorkers()
        ledger = make_ledger or attrgetter("ledger")
        self.service = SimService(scenario, seed, self._excused, self._announce_soon, ledger)
        self.expected: dict[str, int] = {}
        self._announcing = False
        self._settings = _engine_settings(scenario)
        self._plan()

    def go(self) -> "SimulatedRun":
        """Run until everything is done or the scenario's time is over."""
        agenda = self.service.agenda
        agenda.run(int(self.scenario.duration_s * 1e6))
        world = self.service.world
        self.service.journal.check_conservation(world.stats(), sum(world.held().values()))
        return self

    @property
    def done(self) -> bool:
        """Return whether every task of the scenario has ended."""
        return len(self.service.ended) == len(self.expected)

    # ------------------------------------------------------------- plan
    def _plan(self) -> None:
        agenda, service = self.service.agenda, self.service
        for spec in self.scenario.tasks:
            for task in tasks_of(spec, service.topics):
                self.expected[task.name] = spec.targets
                agenda.at(int(task.arrives_s * 1e6), partial(service.submit, task))
        for group in self.scenario.workers:
            for number, name in enumerate(group.names()):
                joins_s = group.joins_s + number * group.every_s
                agenda.at(int(joins_s * 1e6), partial(self._join, Member(name, group, name)))
        for change in self.scenario.changes:
            agenda.at(int(change.at_s * 1e6), partial(self._change, change))
        if self.scenario.until == "done":
            agenda.after(0.1, self._stop_when_done)

    def _stop_when_done(self) -> None:
        if self.done:
            self.service.agenda.stop()
        else:
            self.service.agenda.after(0.1, self._stop_when_done)

    def _change(self, change: ScenarioChange) -> None:
        service = self.service
        if change.tiers is not None:
            service.set_tiers(change.tiers)
        if change.capacity is not None:
            service.set_cap(TOTAL, change.capacity)
        for name, paused in (change.channel_paused or {}).items():
            service.pause_channel(name, paused=paused)
        for task in [name for name in service.tasks if fnmatchcase(name, change.task)]:
            for control in _controls(change):
                service.control(task, control)

    # ------------------------------------------------------------- workers
    def _join(self, member: Member) -> None:
        service, spec = self.service, member.spec
        self.workers.count += 1
        settings = replace(self._settings, worker=member.name)
        # A process has its own clocks: the monotonic one starts anywhere, the first heartbeat corrects the wall clock.
        clock = ServiceClock(SimClock(service.agenda, spec.clock_off_s, service.network.random.uniform(0, 1e5)))
        clock.sync(service.clock.wall_ms(), clock.monotonic_s())
        worker = SimWorker(member, service.agenda, settings, clock, partial(self._ports, clock=clock), self._remove)
        self.workers.live[worker.name] = worker
        self._announce_soon()
        if member.name == member.slot:
            self._plan_ends(worker, spec)
        self._plan_accidents(worker)

    def _plan_ends(self, worker: SimWorker, spec: WorkerSpec) -> None:
        agenda = self.service.agenda
        if spec.leaves_s is not None:
            agenda.at(int(spec.leaves_s * 1e6), lambda: self._in_slot(worker.member.slot, lambda each: each.drain()))
        if spec.dies_s is not None:
            agenda.at(int(spec.dies_s * 1e6), lambda: self._in_slot(worker.member.slot, self._die))
        for stall in spec.stalls:
            agenda.at(
                int(stall.at_s * 1e6),
                partial(self._in_slot, worker.member.slot, partial(self._stall, seconds=stall.for_s)),
            )

    def _in_slot(self, slot: str, call: Callable[[SimWorker], None]) -> None:
        for worker in [each for each in self.workers.live.values() if each.member.slot == slot]:
            call(worker)

    def _plan_accidents(self, worker: SimWorker) -> None:
        network, faults = self.service.network, self.scenario.faults
        if faults.crash_rate:
            network.agenda.after(network.random.expovariate(faults.crash_rate), lambda: self._crash(worker))
        if faults.stall_rate:
            network.agenda.after(network.random.expovariate(faults.stall_rate), lambda: self._stall_at_random(worker))

    def _crash(self, worker: SimWorker) -> None:
        """Crash a worker at random: another process takes its slot after a while."""
        network, faults, member = self.service.network, self.scenario.faults, worker.member
        if not (network.troubled and worker.alive):
            return
        self._die(worker)
        if not worker.draining:
            follower = Member(f"{member.slot}.{self.workers.count}", member.spec, member.slot)
            network.agenda.after(faults.restart_s, lambda: self._join(follower))

    def _stall_at_random(self, worker: SimWorker) -> None:
        network, faults = self.service.network, self.scenario.faults
        if network.troubled and worker.alive:
            self._stall(worker, network.random.uniform(0.2, 1.0) * faults.stall_s)
            network.agenda.after(network.random.expovariate(faults.stall_rate), lambda: self._stall_at_random(worker))

    def _stall(self, worker: SimWorker, seconds: float) -> None:
        self.workers.stalls += 1
        worker.stall(seconds)
        self.workers.stopped_us[worker.name] = worker.stalled_us

    def _die(self, worker: SimWorker) -> None:
        self.workers.crashes += 1
        self.workers.stopped_us[worker.name] = NEVER_US
        worker.die()
        worker.lanes.crash()
        self._remove(worker)

    def _remove(self, worker: SimWorker) -> None:
        self.workers.live.pop(worker.name, None)
        self._announce_soon()

    def _excused(self, worker: str, since_us: int) -> bool:
        """Return whether a worker has died or stalled since a given time."""
        return self.workers.stopped_us.get(worker, -1) >= since_us

    def _ports(self, worker: SimWorker, clock: Clock) -> EnginePorts:
        service, network = self.service, self.service.network
        worker.lanes = SimLanes(service.broker, worker.ready, clock, network)
        courier = SimCourier(worker.name, clock, network, self.scenario.channel, service.journal, worker.awake)
        return EnginePorts(
            lanes=worker.lanes,
            courier=courier,
            leases=SimLeaseCaller(service.ledger, network),
            outcomes=SimOutcomes(service.log, network, service.stored),
            publisher=SimPublisher(service.broker, network),
            dead_letters=service.dead_letters,
            topics=service.topics,
        )

    # ------------------------------------------------------------- the registry
    def _announce_soon(self) -> None:
        """Schedule an announcement of the lanes; changes close together are announced together."""
        if not self._announcing:
            self._announcing = True
            self.service.agenda.after(CHANGE_DELAY_MS[0] / 1000, self._announce_lanes)

    def _announce_lanes(self) -> None:
        self._announcing = False
        for worker in list(self.workers.live.values()):
            self.service.network.carry(partial(self._deliver_lanes, worker), *CHANGE_DELAY_MS)

    def _deliver_lanes(self, worker: SimWorker) -> None:
        """Give a worker its lanes, as they are when the announcement arrives."""
        if worker.alive and not worker.draining:
            worker.hold(self.service.lanes.held_by(worker, self.workers.live.values()))


def replay(source: str, seed: int) -> str:
    """Return the command that runs it again."""
    return f"fairlane simulate {shlex.quote(source)} --seed {seed}"


def _engine_settings(scenario: Scenario) -> EngineSettings:
    """Return the engine's settings with the scenario's changes, and the batches per channel of a real worker."""
    known = EngineSettings(worker="")
    changed: dict[str, Any] = {}
    for name, value in scenario.engine.items():
        if not isinstance(getattr(known, name, None), int | float):
            raise InvalidInput(
                f"engine.{name} is not a numeric setting of the engine.", "See dispatcher/engine/settings.py."
            )
        changed[name] = type(getattr(known, name))(value)
    channels = {spec.channel for spec in scenario.tasks}
    batches = {name: busy_batches(scenario.channel(name).concurrency) for name in sorted(channels)}
    changed |= {"lease_ms": scenario.lease_ms, "claim_ms": scenario.claim_ms, "channel_batches": batches}
    return replace(known, **changed)


def _controls(change: ScenarioChange) -> tuple[Control, ...]:
    return Changes(
        weight=change.weight,
        tier=change.tier,
        cap=change.cap,
        paused=change.paused,
        cancelled=bool(change.cancelled),
    ).controls()
