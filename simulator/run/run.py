"""One run of a scenario: when tasks arrive, and when workers join, leave, stall and die."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from typing import Any

from dispatcher.clock import Clock, ServiceClock
from dispatcher.engine.engine import EnginePorts
from dispatcher.engine.settings import EngineSettings
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task_control import Control
from producers.control.task_changes import Changes
from simulator.run.agenda import SimClock
from simulator.run.audience import tasks_of
from simulator.run.ports import SimCourier, SimLanes, SimLeaseCaller, SimOutcomes, SimPublisher
from simulator.run.service import MakeLedger, SimService
from simulator.run.worker import Member, SimWorker
from simulator.scenario.scenario import Scenario, ScenarioChange, WorkerSpec

LOOK_MS = (5, 60)
"""The time range, in ms, that a change takes to reach a worker."""


@dataclass
class WorkerStop:
    """A time span in which a worker was dead or stalled."""

    from_us: int
    to_us: int


@dataclass
class SimWorkers:
    """All workers of a run, including those that are gone."""

    live: dict[str, SimWorker] = field(default_factory=dict)
    count: int = 0
    crashes: int = 0
    stalls: int = 0
    stops: dict[str, list[WorkerStop]] = field(default_factory=dict)


class SimulatedRun:
    """One run, which can run once.

    source: the name or path by which the scenario was found. make_ledger: for tests with a faulty ledger.
    """

    def __init__(self, scenario: Scenario, seed: int, make_ledger: MakeLedger | None = None, source: str = "") -> None:
        self.scenario = scenario
        self.seed = seed
        self.replay = replay(source or scenario.name, seed)
        self.crew = SimWorkers()
        self.service = SimService(scenario, seed, self._excused, self._look_soon, make_ledger or attrgetter("ledger"))
        self.expected: dict[str, int] = {}
        self._looking = False
        self._settings = _engine_settings(scenario)
        self._plan()

    def go(self) -> "SimulatedRun":
        """Run until everything is done or the time is over."""
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
            service.set_cap("total", change.capacity)
        for name, paused in (change.channel_paused or {}).items():
            service.pause_channel(name, paused)
        for task in [name for name in service.tasks if fnmatchcase(name, change.task)]:
            for control in _controls(change):
                service.control(task, control)

    # ------------------------------------------------------------- workers
    def _join(self, member: Member) -> None:
        service, spec = self.service, member.spec
        self.crew.count += 1
        settings = replace(self._settings, worker=member.name)
        # A process's own clocks: the monotonic one starts anywhere; its first heartbeat corrects the wall clock.
        clock = ServiceClock(SimClock(service.agenda, spec.clock_off_s, service.network.random.uniform(0, 1e5)))
        clock.sync(service.clock.wall_ms(), clock.monotonic_s())
        worker = SimWorker(member, service.agenda, settings, clock, partial(self._ports, clock=clock), self._left)
        self.crew.live[worker.name] = worker
        self.crew.stops.setdefault(worker.name, [])
        self._look_soon()
        if member.name == member.seat:
            self._plan_ends(worker, spec)
        self._plan_accidents(worker)

    def _plan_ends(self, worker: SimWorker, spec: WorkerSpec) -> None:
        agenda = self.service.agenda
        if spec.leaves_s is not None:
            agenda.at(int(spec.leaves_s * 1e6), lambda: self._by_seat(worker.member.seat, lambda one: one.drain()))
        if spec.dies_s is not None:
            agenda.at(int(spec.dies_s * 1e6), lambda: self._by_seat(worker.member.seat, self._die))
        for stall in spec.stalls:
            agenda.at(
                int(stall.at_s * 1e6),
                partial(self._by_seat, worker.member.seat, partial(self._stall, seconds=stall.for_s)),
            )

    def _by_seat(self, seat: str, call: Callable[[SimWorker], None]) -> None:
        """Call with each live worker in a seat."""
        for worker in [one for one in self.crew.live.values() if one.member.seat == seat]:
            call(worker)

    def _plan_accidents(self, worker: SimWorker) -> None:
        network, faults = self.service.network, self.scenario.faults
        if faults.crash_rate:
            network.agenda.after(network.random.expovariate(faults.crash_rate), lambda: self._crash(worker))
        if faults.stall_rate:
            network.agenda.after(network.random.expovariate(faults.stall_rate), lambda: self._stand_still(worker))

    def _crash(self, worker: SimWorker) -> None:
        """Crash a worker by accident: another process takes its seat after a while."""
        network, faults, member = self.service.network, self.scenario.faults, worker.member
        if not (network.troubled and worker.alive):
            return
        self._die(worker)
        if not worker.draining:
            follower = Member(f"{member.seat}.{self.crew.count}", member.spec, member.seat)
            network.agenda.after(faults.restart_s, lambda: self._join(follower))

    def _stand_still(self, worker: SimWorker) -> None:
        network, faults = self.service.network, self.scenario.faults
        if network.troubled and worker.alive:
            self._stall(worker, network.random.uniform(0.2, 1.0) * faults.stall_s)
            network.agenda.after(network.random.expovariate(faults.stall_rate), lambda: self._stand_still(worker))

    def _stall(self, worker: SimWorker, seconds: float) -> None:
        now_us = self.service.agenda.now_us
        self.crew.stalls += 1
        self.crew.stops[worker.name].append(WorkerStop(now_us, now_us + int(seconds * 1e6)))
        worker.stall(seconds)

    def _die(self, worker: SimWorker) -> None:
        now_us = self.service.agenda.now_us
        self.crew.crashes += 1
        self.crew.stops[worker.name].append(WorkerStop(now_us, 1 << 62))
        worker.die()
        worker.lanes.crash()
        self._left(worker)

    def _left(self, worker: SimWorker) -> None:
        self.crew.live.pop(worker.name, None)
        self._look_soon()

    def _excused(self, worker: str, since_us: int) -> bool:
        """Return whether a worker has died or stalled since a moment."""
        return any(stop.to_us >= since_us for stop in self.crew.stops[worker])

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
    def _look_soon(self) -> None:
        """Schedule a look at the lanes; changes close together are announced together."""
        if not self._looking:
            self._looking = True
            self.service.agenda.after(LOOK_MS[0] / 1000, self._tell_all)

    def _tell_all(self) -> None:
        self._looking = False
        for worker in list(self.crew.live.values()):
            self.service.network.carry(partial(self._tell, worker), *LOOK_MS)

    def _tell(self, worker: SimWorker) -> None:
        """Give a worker its lanes as they are when the announcement arrives."""
        if worker.alive and not worker.draining:
            worker.hold(self.service.lanes.held_by(worker, self.crew.live.values()))


def replay(source: str, seed: int) -> str:
    """Return the command that runs it again."""
    return f"fairlane simulate {shlex.quote(source)} --seed {seed}"


def _engine_settings(scenario: Scenario) -> EngineSettings:
    """Return the engine's settings with the scenario's changes, and the batches per channel of a real worker."""
    known = EngineSettings("")
    changed: dict[str, Any] = {}
    for name, value in scenario.engine.items():
        if not isinstance(getattr(known, name, None), int | float):
            raise InvalidInput(f"engine.{name} is no number of the engine's.", "See dispatcher/engine/settings.py.")
        changed[name] = type(getattr(known, name))(value)
    channels = {spec.channel for spec in scenario.tasks}
    places = {name: scenario.channel(name).concurrency * 5 // 4 + 1 for name in sorted(channels)}
    changed |= {"lease_ms": scenario.lease_ms, "claim_ms": scenario.claim_ms, "channel_batches": places}
    return replace(known, **changed)


def _controls(change: ScenarioChange) -> tuple[Control, ...]:
    return Changes(
        weight=change.weight,
        tier=change.tier,
        cap=change.cap,
        paused=change.paused,
        cancelled=bool(change.cancelled),
    ).controls()
