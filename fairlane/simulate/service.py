"""The service of one run but its workers: broker, logs, ledger, fold, and the jobs that some worker does for all."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from dispatcher.control import FORMAT as CONTROL_FORMAT
from dispatcher.control import Checkpoint, ControlChange, GlobalChange, Sealed
from dispatcher.lease import LeaseAnswer, LeaseRequest
from dispatcher.memory.fold import MemoryFold
from dispatcher.memory.lanes import MemoryBroker
from dispatcher.memory.ledger import MemoryLedger
from dispatcher.memory.logs import MemoryOutcomeLog
from dispatcher.memory.view import MemoryView
from dispatcher.outcome import FORMAT as RECORD_FORMAT
from dispatcher.outcome import ClaimsEnded, CloseTask
from dispatcher.ports import Ledger
from dispatcher.service_settings import Cap
from dispatcher.tier import MILLI, TIERS, Tier
from dispatcher.topics import Topics
from fairlane.laws import CapSince
from fairlane.simulate.agenda import Agenda, SimClock
from fairlane.simulate.audience import SimTask
from fairlane.simulate.journal import Journal
from fairlane.simulate.network import Network
from fairlane.simulate.ports import SimDeadLetters
from fairlane.simulate.registry import LaneBook
from fairlane.simulate.scenario import Scenario

HOUSEKEEPING_S = 1.0
PUBLISH_S = 0.1
"""A steady publisher sends a piece this often."""
MakeLedger = Callable[[MemoryView], Ledger]


class WatchedLedger:
    """Implements dispatcher.ports.Ledger; the journal is told of every call that arrives."""

    def __init__(self, ledger: Ledger, journal: Journal) -> None:
        self._ledger = ledger
        self._journal = journal

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        answer = self._ledger.lease(request)
        self._journal.leased(request, answer)
        return answer


class Service:
    """lanes_changed: told when workers should look at the lanes. accepted: task -> targets published (an expired or
    cancelled task takes no more). ended: task -> when its end was written, in us."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        excused: Callable[[str, int], bool],
        lanes_changed: Callable[[], None],
        make_ledger: MakeLedger = MemoryLedger,
    ) -> None:
        self.agenda = Agenda()
        self.clock = SimClock(self.agenda)
        self.topics = Topics(outcome_partitions=1)
        self.broker = MemoryBroker()
        self.log = MemoryOutcomeLog(self.topics)
        self.view = MemoryView(self.clock, self.topics)
        self.journal = Journal(self.agenda, lambda task: self.view.tasks[task].tier, self._is_capped, excused)
        self.ledger = WatchedLedger(make_ledger(self.view), self.journal)
        self.network = Network(self.agenda, Random(seed), scenario.faults)
        self.dead_letters = SimDeadLetters(self.network)
        self.lanes = LaneBook(self.view, self.topics, seed)
        self.tasks: dict[str, SimTask] = {}
        self.accepted: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.caps: dict[str, list[CapSince]] = {}
        self._scenario = scenario
        self._lanes_changed = lanes_changed
        self._fold = MemoryFold(self.view)
        self._keeper = MemoryLedger(self.view)
        self._folding = False
        self._paused: dict[str, bool] = {}
        """Channels."""
        for lane in self.topics.standing_lanes():
            self.broker.create(lane)
        self._announce_settings()
        self.agenda.after(HOUSEKEEPING_S, self._keep_house)

    # ------------------------------------------------------------- settings of the service
    def _announce_settings(self) -> None:
        scenario = self._scenario
        self.set_tiers(scenario.tiers)
        self.set_cap("total", scenario.capacity)
        for name, cap in scenario.caps.named().items():
            self.set_cap(name, cap)
        if scenario.sharing != "tasks":
            self._set("sharing", scenario.sharing)
        for app, weight in scenario.app_weights.items():
            self._set(f"app_weight:{app}", str(round(weight * MILLI)))

    def set_tiers(self, weights: Mapping[Tier, float]) -> None:
        self._set("tiers", ":".join(str(round(weights[tier] * MILLI)) for tier in TIERS))
        self.journal.gaps.set_weights({str(tier): weight for tier, weight in weights.items()})

    def set_cap(self, name: str, cap: Cap) -> None:
        """name: total, or that of a pool (channel/NAME, app/NAME, app_channel/APP/NAME)."""
        kind, _, what = name.partition("/")
        self._set("capacity" if name == "total" else f"cap:{kind}:{what}", cap.text)
        self._note_cap(name, cap)
        if name == "total":
            self.journal.gaps.set_capacity(cap.rate, cap.allowance)

    def pause_channel(self, name: str, paused: bool) -> None:
        self._set(f"channel_paused:{name}", str(int(paused)))
        self._paused[name] = paused
        for task in self.tasks.values():
            if task.spec.channel == name:
                self._block(task.name, "channel paused", blocked=paused)

    def _set(self, field: str, value: str) -> None:
        self.view.apply(GlobalChange(CONTROL_FORMAT, field, value, self.clock.wall_ms()))

    def _is_capped(self, task: str) -> bool:
        state = self.view.tasks[task]
        record = state.record
        shares = record is None or (self.view.caps and self.view.pools_of(record.app, record.channel))
        return state.cap > 0 or bool(shares)

    def _note_cap(self, name: str, cap: Cap) -> None:
        self.caps.setdefault(name, []).append(CapSince(self.agenda.now_us, cap))

    # ------------------------------------------------------------- tasks
    def submit(self, task: SimTask) -> None:
        """Record, lane, envelopes (at once, or steadily), seal."""
        now_ms = self.clock.wall_ms()
        self.tasks[task.name] = task
        self.broker.create(task.lane)
        self.view.apply(task.record(now_ms))
        self._note_cap(f"task/{task.name}", task.spec.cap)
        self._block(task.name, "channel paused", blocked=self._paused.get(task.spec.channel, False))
        self.lanes.add(task)
        self._lanes_changed()
        self._publish(task, 0, task.expires_ms(now_ms))

    def _publish(self, task: SimTask, first_target: int, expires_ms: int) -> None:
        spec, chunk = task.spec, task.spec.envelope_targets
        left = spec.targets - first_target
        piece = left
        if spec.publish_rate:
            piece = min(left, max(1, int(spec.publish_rate * PUBLISH_S) // chunk) * chunk)
        if self.view.tasks[task.name].ended or self.view.tasks[task.name].closed:
            return
        envelopes = list(task.envelopes(first_target, piece, self.clock.wall_ms(), expires_ms))
        self.broker.publish(task.lane, envelopes)
        self.journal.publish(task.name, self.view.tasks[task.name].tier, piece, chunk)
        published = self.accepted[task.name] = first_target + piece
        sequence = -(-published // chunk)
        self.view.apply(Checkpoint(CONTROL_FORMAT, task.name, "0", sequence, published, 0, published, "digest"))
        copies = [one for one in envelopes if self.network.hits(self._scenario.faults.copies)]
        if copies:
            self.network.carry(lambda: self.broker.publish(task.lane, copies), 1, 2_000)
        if left > piece:
            every_s = max(PUBLISH_S, piece / spec.publish_rate)
            self.agenda.after(every_s, lambda: self._publish(task, first_target + piece, expires_ms))
        else:
            self.network.carry(lambda: self._seal(task), 5, 20)

    def _seal(self, task: SimTask) -> None:
        record = Sealed(CONTROL_FORMAT, task.name, task.spec.targets, 0, "digest", ["0"])
        self._finish_soon(self.view.apply(record))

    def control(self, name: str, field: str, value: str) -> None:
        """A control of a task; what shares its lane with others gets one of its own first."""
        state = self.view.tasks.get(name)
        if state is None or state.ended:
            return
        task = self.tasks[name]
        if task.shared and field != "cancelled" and not self._has_own_lane(name):
            lane = self.topics.own_lane(name)
            self.broker.create(lane)
            self._change(name, "lane", lane)
            self.lanes.move(task, lane)
        self._change(name, field, value)
        if field in ("paused", "cancelled"):
            self._block(name, field, blocked=value == "1")
        if field == "cap":
            self._note_cap(f"task/{name}", Cap.parse(value))
        self.lanes.changed()
        self._lanes_changed()

    def _has_own_lane(self, name: str) -> bool:
        record = self.view.tasks[name].record
        return record is not None and not record.shared

    def _change(self, name: str, field: str, value: str) -> None:
        self.view.apply(ControlChange(CONTROL_FORMAT, name, field, value, self.clock.wall_ms()))

    def _block(self, task: str, why: str, *, blocked: bool) -> None:
        if blocked:
            self.journal.blocked[task].add(why)
        else:
            self.journal.blocked[task].discard(why)

    # ------------------------------------------------------------- what some worker does for all
    def stored(self) -> None:
        """A record stands in the outcome topic: it is folded soon, with those that come meanwhile."""
        if not self._folding:
            self._folding = True
            self.network.carry(self._fold_all, 3, 10)

    def _fold_all(self) -> None:
        self._folding = False
        cursor = self._fold.cursor(0)
        entries = self.log.read(0, cursor)
        if entries:
            result = self._fold.apply(0, cursor, entries[-1][0], [record for _, record in entries])
            self._finish_soon(result.finished)

    def _finish_soon(self, tasks: list[str]) -> None:
        for task in tasks:
            self.network.carry(partial(self._finish, task), 10, 30)

    def _finish(self, task: str) -> None:
        state = self.view.tasks[task]
        if not state.complete:
            return
        ending = "cancelled" if state.cancelled else "completed"
        self.view.finish(task, ending)
        self.ended[task] = self.agenda.now_us
        self.lanes.remove(task)
        self._lanes_changed()

    def _keep_house(self) -> None:
        for members in self._keeper.due_claims().values():
            self._record("housekeeping", ClaimsEnded(RECORD_FORMAT, members))
        for task, code, reason in self._keeper.closable():
            self._record(task, CloseTask(RECORD_FORMAT, task, code, self.clock.wall_ms(), reason))
        self.agenda.after(HOUSEKEEPING_S, self._keep_house)

    def _record(self, task: str, record: ClaimsEnded | CloseTask) -> None:
        self.log.publish(task, record, lambda _: None)
        self.stored()
