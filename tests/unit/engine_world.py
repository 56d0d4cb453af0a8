"""A world for tests of the engine: with workers that may die between any two steps."""

import dataclasses
import queue
from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from backends.redis.workers import Workers
from consumers.delivery.fleet_gate import FleetGate
from dispatcher.clock import Clock, ServiceClock
from dispatcher.engine.engine import Engine
from dispatcher.engine.events import Drain, LaneReady, LanesChanged
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.shared import EnginePorts
from dispatcher.model.errors import Unreachable
from dispatcher.model.tier import Tier
from dispatcher.ports import Courier, Done, LaneInfo, Ledger
from dispatcher.wire.control import ControlRecord, decode_control
from dispatcher.wire.envelope import Envelope, encode_message
from dispatcher.wire.lease import LaneKind
from dispatcher.wire.outcome import ALL_SENT, RETRY, EpochMark, OutcomeRecord, Outcomes, Report, Verdict, decode_record
from fairlane.worker.report.heartbeat import Heartbeat, WorkerIdentity
from lab.simulator.lanes import MemoryLanes
from lab.simulator.logs import position
from lab.simulator.world import World
from tests.contract.registry_records import change, sealed, setting, task_record
from tests.records import lane_info
from tests.unit.dispatch.consumers.envelopes import envelope
from tests.unit.memory_courier import MemoryCourier, Script, all_sent
from tests.unit.memory_leases import MemoryLeaseCaller
from tests.unit.memory_publisher import MemoryPublisher
from tests.unit.tripwire import Crash, Tripped, Tripwire
from tests.virtual_clock import VirtualClock

MESSAGE = encode_message({"title": "hello"})
BUSY = Report(Verdict(RETRY, "busy"))


def busy_at_first(envelope: Envelope) -> Report:
    """A provider that accepts second attempts only."""
    return BUSY if envelope.attempt == 0 else ALL_SENT


def on_each(port: Any, call: str, act: Callable[..., None]) -> None:
    """Act before each call of a port, with its arguments."""
    original: Callable[..., Any] = getattr(port, call)

    def noted(*args: Any) -> Any:
        act(*args)
        return original(*args)

    setattr(port, call, noted)


class WorkerOutcomes:
    """The outcome topics as one worker reaches them. cut: not at all."""

    def __init__(self, world: "EngineWorld") -> None:
        self.cut = False
        self._outcomes = world.outcomes

    def publish(self, task: str, record: OutcomeRecord, done: Done) -> None:
        if self.cut:
            done(Unreachable("Pulsar cannot be reached from here."))
        else:
            self._outcomes.publish(task, record, done)


class Worker:
    """One engine over the world's broker, logs and ledger."""

    def __init__(
        self,
        world: "EngineWorld",
        name: str,
        clock: Clock | None = None,
        ledger: Ledger | None = None,
        courier: Courier | None = None,
        gate: FleetGate | None = None,
        **settings: Any,
    ) -> None:
        """clock, ledger: its own, if not the world's. courier: the default answers as the world does."""
        clock = clock or world.clock
        self.name = name
        self.world = world
        self.alive = True
        self.inbox: queue.Queue[Any] = queue.Queue()
        self.wire = Tripwire()
        self.lanes = MemoryLanes(world.broker, lambda lane: self.inbox.put(LaneReady(lane)), clock)
        self.courier = MemoryCourier(clock, world.answer)
        """Unused if another one was given."""
        self.leases = MemoryLeaseCaller(ledger or world.ledger)
        self.publisher = MemoryPublisher(world.broker)
        self.outcomes = WorkerOutcomes(world)
        ports = EnginePorts(
            lanes=Tripped(self.lanes, self.wire, ["ack"]),
            courier=Tripped(courier or self.courier, self.wire, ["send"]),
            leases=Tripped(self.leases, self.wire, ["ask"]),
            outcomes=Tripped(self.outcomes, self.wire, ["publish"]),
            publisher=Tripped(self.publisher, self.wire, ["publish"]),
            dead_letters=Tripped(world.dead_letters, self.wire, ["publish"]),
            topics=world.topics,
        )
        if gate is not None:
            ports = dataclasses.replace(ports, allot=gate.allot, is_reopened=gate.is_reopened)
        self.engine = Engine(EngineSettings(worker=name, **settings), ports, clock, self.inbox)
        self.heart = Heartbeat(
            Workers(world.view),
            WorkerIdentity(id=name, host="host", pid=1, version="0"),
            self.engine.stats,
            lambda: "serving",
            ServiceClock(clock),
        )
        self.inbox.put(LanesChanged(world.held_lanes()))

    def work(self) -> float:
        """Takes all that is in the inbox. Returns the seconds until there is more to do."""
        if not self.alive or self.engine.drained:
            return 1.0
        try:
            wait_s = self.engine.advance()
            while not self.inbox.empty():
                wait_s = self.engine.step(self.inbox.get())
        except Crash:
            self.die()
            return 1.0
        return wait_s

    def beat(self) -> None:
        """Send a heartbeat."""
        if self.alive:
            self.heart.beat("serving")

    def die(self) -> None:
        """SIGKILL."""
        self.alive = False
        self.lanes.crash()

    def cut_off(self) -> None:
        """Pulsar cannot be reached from it any more, and delivers to others what it holds. Redis can be reached."""
        self.outcomes.cut = True
        for lane in self.lanes.attached:
            self.world.broker.detach(self.lanes, lane)

    def reconnect(self) -> None:
        """After `cut_off`."""
        self.outcomes.cut = False
        for lane in self.lanes.attached:
            self.world.broker.attach(self.lanes, lane)

    def look(self) -> None:
        """The registry watcher says which lanes there are."""
        self.inbox.put(LanesChanged(self.world.held_lanes()))

    def drain(self, within_s: float = 20.0) -> None:
        self.inbox.put(Drain(within_s))

    def go_on(self) -> None:
        """Its channels answer, those too that were paused."""
        self.courier.paused.clear()
        self.courier.answer()


class EngineWorld(World):
    """A world with workers. script: the provider. Time moves only in `run`."""

    clock: VirtualClock
    target_form = "{task}:{number}"
    housekeeping_s = 1.0

    def __init__(self, script: Script = all_sent, *, capacity: int = 0, **world: Any) -> None:
        super().__init__(VirtualClock(), **world)
        self.workers: list[Worker] = []
        self.script = script
        self.provider_calls: list[Envelope] = []
        self.calls: Counter[tuple[str, int]] = Counter()
        """How often the provider was called for each target and attempt."""
        self.lanes: dict[str, LaneInfo] = {}
        self.folding = self.reachable = True
        self.beating = False
        """Whether workers that live send heartbeats."""
        self._house_s = self._beat_s = 0.0
        if capacity:
            self.set_global("capacity", str(capacity))
        for lane in self.topics.retry_lanes():
            delayed = lane_info(lane.topic, kind=LaneKind.RETRY, chunk=100, delay_s=lane.delay_s, channel="")
            self.add_lane(replace(delayed, tier=str(lane.tier)))

    def answer(self, envelope: Envelope) -> Any:
        self.provider_calls.append(envelope)
        self.calls.update((target, envelope.attempt) for target in envelope.targets)
        return self.script(envelope)

    # ------------------------------------------------------------- what is given to it
    def write(self, record: ControlRecord) -> list[str]:
        """To the control topic, and (while the ledger is there) into the view."""
        if self.reachable:
            return super().write(record)
        self.control.append(record)
        return []

    def change(self, task: str, field: str, value: str) -> None:
        self.write(change(task, field, value, self.clock.wall_ms()))

    def set_global(self, field: str, value: str) -> None:
        self.write(setting(field, value, self.clock.wall_ms()))

    def lose_ledger(self) -> None:
        """Redis is gone: no call is answered, nothing is folded."""
        self.reachable = self.folding = False
        for worker in self.workers:
            worker.leases.fail = 1_000_000

    def find_ledger(self) -> None:
        """It is back as it was; the control topic is read on."""
        self.reachable = self.folding = True
        for place, body in enumerate(self.control.records):
            record = decode_control(body)
            if not isinstance(record, EpochMark):
                self.read_control(position(place), record)
        for worker in self.workers:
            worker.leases.fail = 0

    def add_task(
        self,
        task: str,
        targets: int,
        *,
        chunk: int = 1,
        tier: Tier = Tier.HIGH,
        shared: bool = False,
        publish: bool = True,
        seal: bool = True,
        **fields: Any,
    ) -> str:
        """Submits a task whole: record, lane, envelopes, seal. Returns its lane. fields: of its record."""
        lane = self.topics.shared_lane(0) if shared else self.topics.own_lane(task)
        kind = LaneKind.SHARED if shared else LaneKind.OWN
        plain = {"app": "app", "max_attempts": 3, "created_ms": self.clock.wall_ms(), "message": MESSAGE}
        record = task_record(
            task, tier=tier, shared=shared, lane=lane, chunk=chunk, expected_targets=targets, **plain | fields
        )
        self.write(record)
        if seal:
            self.write(sealed(task, targets))
        owner = "" if shared else task
        self.add_lane(
            lane_info(lane, owner, kind=kind, tier=str(tier), weight=record.weight, chunk=chunk, channel=record.channel)
        )
        if publish:
            of_all = ("channel", "max_attempts", "gives_up_unknown", "retry_for_ms", "expires_ms")
            self.publish(task, lane, targets, chunk=chunk, **{name: getattr(record, name) for name in of_all})
        return lane

    def publish(self, task: str, lane: str, targets: int, *, chunk: int = 1, first: int = 0, **fields: Any) -> None:
        """Put envelopes of `chunk` targets into a lane. first: the sequence of the first. fields: of all of them."""
        common = {
            "task": task,
            "app": "app",
            "channel": "null",
            "published_ms": self.clock.wall_ms(),
            "max_attempts": 3,
        }
        names = [self.target_form.format(task=task, number=number) for number in range(targets)]
        parts = enumerate((names[start : start + chunk] for start in range(0, targets, chunk)), first)
        envelopes = [envelope(number, part, message=MESSAGE, **(common | fields)) for number, part in parts]
        self.broker.publish(lane, envelopes)

    def add_lane(self, info: LaneInfo) -> None:
        self.broker.create(info.name)
        self.lanes[info.name] = info
        for worker in self.workers:
            worker.look()

    def held_lanes(self) -> list[LaneInfo]:
        return list(self.lanes.values())

    def remove_lane(self, lane: str) -> None:
        del self.lanes[lane]
        for worker in self.workers:
            worker.look()

    def worker(self, name: str = "", **settings: Any) -> Worker:
        worker = Worker(self, name or f"w{len(self.workers)}", **settings)
        self.workers.append(worker)
        return worker

    # ------------------------------------------------------------- time
    def run_out(self, *tasks: str, within_s: float = 120.0) -> float:
        """Run until these tasks have ended and no lane holds anything. Return the seconds it took."""
        return self.run(lambda: self.finished(*tasks) and self.settled(), within_s=within_s)

    def sent_once(self, task: str, targets: int) -> None:
        """Run until the task has ended: all its targets were sent, and each attempt of any was one call."""
        self.run_out(task)
        assert self.counts(task) == {"sent": targets}
        assert set(self.calls.values()) == {1}

    def run(self, until: Callable[[], bool] | None = None, *, within_s: float = 120.0) -> float:
        """Lets everybody work, and time pass, until the condition holds. Without one: for within_s. Returns the seconds
        it took."""
        started_s = self.clock.monotonic_s()
        end_s = started_s + within_s
        while not (until is not None and until()):
            if self.clock.monotonic_s() >= end_s:
                if until is None:
                    break
                raise AssertionError(f"Not within {within_s} s: {self.explain()}")
            self.beat_all()
            wait_s = min([worker.work() for worker in self.workers], default=1.0)
            self.fold_all()
            if until is not None and until():
                break
            if wait_s > 0:
                left_s = end_s - self.clock.monotonic_s()
                self.clock.advance(max(0.001, min(wait_s, left_s)))
        return self.clock.monotonic_s() - started_s

    def beat_all(self) -> None:
        """Do the work of the heartbeats, once a second."""
        if self.beating and self.reachable and self.clock.monotonic_s() >= self._beat_s:
            self._beat_s = self.clock.monotonic_s() + 1.0
            for worker in self.workers:
                worker.beat()

    def fold_all(self) -> None:
        """Do the work of folder, finisher and housekeeper."""
        if not self.folding:
            return
        self.finisher.finish(self.fold_outcomes())
        if self.clock.monotonic_s() >= self._house_s:
            self._house_s = self.clock.monotonic_s() + self.housekeeping_s
            self.do_housekeeping()

    # ------------------------------------------------------------- what came of it
    def finished(self, *tasks: str) -> bool:
        return all(self.view.command("HGET", self.view.keys.task(task), "ended") for task in tasks)

    def settled(self) -> bool:
        """No lane holds anything that is not acked."""
        return not any(self.broker.open(lane) for lane in self.broker.lanes())

    def records(self) -> list[Outcomes]:
        """Return the outcome records of the first outcome topic."""
        decoded = [decode_record(record) for record in self.outcomes.partitions[0]]
        return [record for record in decoded if isinstance(record, Outcomes)]

    def counts(self, task: str) -> dict[str, int]:
        return {name: count for name, count in super().counts(task).items() if count}

    def explain(self) -> str:
        open_lanes = {lane: len(self.broker.open(lane)) for lane in self.broker.lanes() if self.broker.open(lane)}
        return f"open {open_lanes}, stats {[worker.engine.stats for worker in self.workers]}"
