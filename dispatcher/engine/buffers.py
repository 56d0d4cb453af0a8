"""The memory of one lane: runs of envelopes on their way from the lane to their ack."""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum

from dispatcher.engine.rhythm import RateWindow
from dispatcher.engine.runs import EnvelopeRun, RunState, envelope_runs
from dispatcher.model.tier import Tier
from dispatcher.ports import Delivery, LaneInfo
from dispatcher.scheduling.scheduler import Scheduler
from dispatcher.scheduling.shared_bound import SharedBound
from dispatcher.scheduling.sharing import Work
from dispatcher.wire.lease import LaneAsk, LaneKind


class LanePhase(Enum):
    """Whether a lane is served, waits, or is about to be detached."""

    OPEN = 0
    PARKED = 1
    """Nothing is asked for until the registry changes it, or for a while."""
    CLOSING = 2
    """Nothing new is sent. It is detached once all that is asked for or out is settled."""


WAITING, ASKED, CREDIT, HELD, OUT, GONE = RunState
OPEN, PARKED, CLOSING = LanePhase
"""Looked up once: access to an enum member costs ten times a name."""

NEXT = {
    WAITING: (ASKED, GONE),
    ASKED: (CREDIT, WAITING, HELD, OUT, GONE),
    CREDIT: (OUT, WAITING, GONE),
    HELD: (WAITING, ASKED, OUT, GONE),
    OUT: (GONE, WAITING, HELD),
    GONE: (),
}
"""The legal transitions of a run. A run starts in WAITING. LaneBuffer moves it and counts its targets by state."""
NEXT_PHASES = {OPEN: (PARKED, CLOSING), PARKED: (OPEN,), CLOSING: ()}
"""The legal transitions of a lane."""
IN_MEMORY = (WAITING, ASKED, CREDIT, HELD, OUT)
"""States whose targets are counted, by their number."""


class IllegalTransition(Exception):
    """A bug of the engine: a run or a lane cannot enter this state from its current one."""


class Credit:
    """Envelopes that a lane may send through one flow now."""

    __slots__ = ("entry", "lane", "queue")

    def __init__(self, lane: "LaneBuffer", flow: str, scheduler: "Scheduler[Credit]") -> None:
        self.lane = lane
        self.queue: deque[EnvelopeRun] = deque()
        self.entry = scheduler.entry(self, lane.tier, max(1, lane.info.weight), flow, lane.work)

    def take(self, envelopes: int, targets: int) -> list[EnvelopeRun]:
        """Take the next runs under one claim: at most `envelopes` and `targets`, at least one envelope."""
        queue, lane, claim = self.queue, self.lane, self.queue[0].claim
        parts: list[EnvelopeRun] = []
        while queue and envelopes > 0:
            head = queue[0]
            fits = targets // (head.size or 1)
            if head.claim != claim or (fits <= 0 and parts):
                break
            part = head.take(min(envelopes, fits) if fits > 1 else 1)
            if part is head:
                queue.popleft()
            lane.take_out(part)
            parts.append(part)
            envelopes -= len(part.deliveries)
            targets -= part.targets
        return parts

    def pop_late(self, limit_s: float) -> list[EnvelopeRun]:
        """Remove the first runs whose use-by is not after `limit_s`. The caller puts them back into the lane."""
        late: list[EnvelopeRun] = []
        while self.queue and self.queue[0].use_by_s <= limit_s:
            late.append(self.queue.popleft())
        return late

    def pop_blocked(self, has_room: Callable[[str], bool]) -> list[EnvelopeRun]:
        """Remove the runs of tasks without room. The caller puts them back into the lane."""
        parts = list(self.queue)
        self.queue = deque(part for part in parts if has_room(part.task))
        return [part for part in parts if not has_room(part.task)]


class BufferTotals:
    """Gauges over all lanes of a worker. Only LaneBuffer changes them."""

    __slots__ = ("held_envelopes", "parked_lanes", "targets")

    def __init__(self) -> None:
        self.targets = [0] * len(IN_MEMORY)
        """By RunState."""
        self.held_envelopes = 0
        self.parked_lanes = 0

    @property
    def targets_in_memory(self) -> int:
        return sum(self.targets)


class LaneBuffer:
    """One lane of this worker and its envelopes in memory."""

    __slots__ = (
        "_held",
        "_totals",
        "asked",
        "credit",
        "delivered",
        "drain",
        "due_ms",
        "filling",
        "grants",
        "held_by_task",
        "held_envelopes",
        "info",
        "laps",
        "name",
        "phase",
        "ready",
        "short",
        "targets",
        "tier",
        "waiting",
        "waits_for_flow",
        "work",
    )

    def __init__(
        self, info: LaneInfo, drains: "Scheduler[LaneBuffer]", totals: BufferTotals, held: SharedBound
    ) -> None:
        self.name = info.name
        self.info = info
        self.tier = Tier(info.tier)
        self.work = Work.RETRIES if info.kind == LaneKind.RETRY else Work.FRESH
        self.phase = OPEN
        self.targets = [0] * len(IN_MEMORY)
        """By RunState."""
        self.waiting: deque[EnvelopeRun] = deque()
        """In order of delivery."""
        self.waits_for_flow = False  # whether some of it may wait for the end of a pause of its flow
        self.asked: list[EnvelopeRun] = []
        self.laps: list[EnvelopeRun] = []
        """Waiting runs that were due in the lane and have no target that is due."""
        self.credit: dict[str, Credit] = {}
        """By channel."""
        self.held_envelopes = 0
        self.held_by_task: dict[str, tuple[int, int]] = {}
        """Held envelopes and targets by task."""
        self.grants = RateWindow()
        self.due_ms = 0
        """Due time of the first waiting envelope, if a timer is set for it."""
        self.drain = drains.entry(self, self.tier, max(1, info.weight), work=self.work)
        """The lane's entry in the queue of lanes to drain."""
        self.filling = False
        """True while it is being drained until it is full or the lane is empty."""
        self.ready = False
        """True if there may be more to drain."""
        self.delivered = False
        """True once it has delivered something since it was attached."""
        self.short = False
        """True if its last answer was NO_CREDIT."""
        self._totals = totals
        self._held = held
        """The bound of held targets, shared by all lanes."""

    @property
    def closing(self) -> bool:
        return self.phase is CLOSING

    @property
    def parked(self) -> bool:
        return self.phase is PARKED

    @property
    def is_settled(self) -> bool:
        """Return whether no run of it is in the lease call, in a channel or being settled."""
        return not (self.asked or self.targets[ASKED] or self.targets[OUT])

    # ------------------------------------------------------------- the lane
    def update(self, info: LaneInfo) -> None:
        self.info = info
        self.tier = Tier(info.tier)

    def park(self) -> None:
        self._enter(PARKED)
        self._totals.parked_lanes += 1

    def unpark(self) -> None:
        self._enter(OPEN)
        self._totals.parked_lanes -= 1

    def close(self) -> list[EnvelopeRun]:
        """Forget all runs that are not under way, since the broker still has them. Return the granted ones, which the
        caller gives back."""
        self._enter(CLOSING)
        granted = [part for credit in self.credit.values() for part in credit.queue]
        for part in (*self.waiting, *granted):
            self._move(part, GONE)
        self.waiting.clear()
        for credit in self.credit.values():
            credit.queue.clear()
        for task, (envelopes, targets) in list(self.held_by_task.items()):
            self._count(HELD, -targets)
            self._count_held(task, -envelopes, -targets)
        return granted

    def _enter(self, phase: LanePhase) -> None:
        if phase not in NEXT_PHASES[self.phase]:
            raise IllegalTransition(f"Lane {self.name} cannot go from {self.phase.name} to {phase.name}.")
        self.phase = phase

    def announce(self) -> None:
        """Record that there may be more to drain."""
        self.ready = True

    def set_filling(self, *, filling: bool) -> None:
        self.filling = filling

    def drained(self, *, empty: bool) -> None:
        """Record that the last drain took all there was. `empty`: the lane announces itself when there is more."""
        self.filling = False
        self.ready = self.ready and not empty

    def set_due(self, due_ms: int) -> bool:
        """Set the due time of the first waiting envelope; 0 if there is none. Return whether it changed."""
        changed = self.due_ms != due_ms
        self.due_ms = due_ms
        return changed

    def forget_idle_flows(self) -> None:
        """Forget flows without credit, and with them their lead over other flows."""
        self.credit = {name: credit for name, credit in self.credit.items() if credit.queue}

    # ------------------------------------------------------------- its envelopes
    def append(self, deliveries: Sequence[Delivery], wall_ms: int) -> int:
        """Append drained deliveries and return the number of their targets."""
        runs, targets = envelope_runs(deliveries)
        for part in runs:
            part.limit_due(wall_ms, self.info.delay_s)
            self.waits_for_flow |= part.waits_for_flow
        if runs and self.waiting and runs[0].continues(self.waiting[-1]):
            self.waiting[-1].deliveries.extend(runs.pop(0).deliveries)
        self.waiting.extend(runs)
        self._count(WAITING, targets)
        self.delivered = True
        return targets

    def put_back(self, part: EnvelopeRun) -> None:
        """Put a run back at the head, from the last run to the first. A closing lane leaves it to the broker."""
        self._move(part, GONE if self.closing else WAITING)
        if self.closing:
            return
        part.claim = ""
        if self.waiting and self.waiting[0].continues(part):
            part.deliveries.extend(self.waiting.popleft().deliveries)
        self.waiting.appendleft(part)

    def ask(self) -> LaneAsk:
        """Return this lane's part of a lease request."""
        info, targets = self.info, self.targets
        return LaneAsk(
            lane=self.name,
            kind=info.kind,
            tier=str(self.tier) if info.kind == LaneKind.RETRY else "",
            demand=targets[WAITING] + targets[ASKED] + targets[CREDIT],
            wants=[part.want() for part in self.asked],
            task=info.task,
            app=info.app,
            channel=info.channel,
            delay_s=info.delay_s,
        )

    def take_wants(self, targets: int, max_runs: int, wall_ms: int) -> list[EnvelopeRun]:
        """Take waiting runs that are due into the call: up to `targets`, at least one envelope.

        Runs without a target that is due are left in `laps`: their stay in the retry lane was too short.
        """
        waiting = self.waiting
        taken: list[EnvelopeRun] = []
        while waiting and len(taken) < max_runs and (targets > 0 or not taken):
            head = waiting[0]
            if head.not_before_ms > wall_ms:
                break
            if head.groups is not None and not self._choose_due(head, wall_ms):
                self.laps.append(waiting.popleft())
                self._move(head, ASKED)
                continue
            part = head.take_targets(targets)
            if part is head:
                waiting.popleft()
            self._move(part, ASKED)
            taken.append(part)
            targets -= part.targets
        self.asked = taken
        return taken

    def hurry(self, is_reopened: Callable[[str], bool], wall_ms: int) -> bool:
        """Move runs that wait for a pause which was ended to the head. Return whether there are any."""
        reopened = sum([part.reopen(is_reopened, wall_ms) for part in self.waiting])
        if reopened:
            self.waiting = deque(sorted(self.waiting, key=lambda part: not part.reopened))
        self.waits_for_flow = any(part.waits_for_flow and not part.reopened for part in self.waiting)
        return reopened > 0

    def take_laps(self) -> list[EnvelopeRun]:
        """Remove and return the runs that are published to their retry lane again, because they are not due yet."""
        laps, self.laps = self.laps, []
        for part in laps:
            self._move(part, OUT)
        return laps

    def _choose_due(self, part: EnvelopeRun, wall_ms: int) -> bool:
        """Choose the targets of a waiting run that are due. Return whether there are any."""
        before = part.targets
        part.choose_due(wall_ms)
        self._count(part.state, part.targets - before)
        return part.size > 0

    def ask_again(self, part: EnvelopeRun) -> None:
        """Take a held run into the call."""
        self._move(part, ASKED)
        self.asked.append(part)

    def leave_out(self, parts: Sequence[EnvelopeRun]) -> None:
        """Take these runs out of the call before it is made. The caller moves each of them on."""
        self.asked = [part for part in self.asked if part not in parts]

    def end_call(self) -> list[EnvelopeRun]:
        """Return the runs of the call that was answered, or failed. The caller moves each of them on."""
        asked, self.asked = self.asked, []
        return asked

    def set_short(self, *, short: bool) -> None:
        self.short = short

    def grant(self, part: EnvelopeRun, flow: str, scheduler: "Scheduler[Credit]", now_s: float) -> Credit:
        """Add a granted run to the credit of its flow. Return that credit, for the caller to enter."""
        credit = self.credit.get(flow)
        if credit is None:
            credit = self.credit[flow] = Credit(self, flow, scheduler)
        self._move(part, CREDIT)
        credit.queue.append(part)
        self.grants.add(part.targets, now_s)
        return credit

    def hold(self, part: EnvelopeRun) -> None:
        """Set a run aside until `put_back`, `ask_again` or `take_out`. `close` forgets it."""
        self._move(part, HELD)

    def take_out(self, part: EnvelopeRun) -> None:
        """Hand a run to its channel, or to settling."""
        self._move(part, OUT)

    def drop(self, part: EnvelopeRun) -> None:
        """Forget a run, because the broker delivers it again."""
        self._move(part, GONE)

    def ack(self, targets: int) -> None:
        """Forget this many targets, which were sent and settled. A number is enough: settling merges adjacent runs."""
        self._count(OUT, -targets)

    # ------------------------------------------------------------- gauges
    def _move(self, part: EnvelopeRun, state: RunState) -> None:
        before, targets = part.state, part.targets
        if state not in NEXT[before]:
            raise IllegalTransition(f"A run of lane {self.name} cannot go from {before.name} to {state.name}.")
        self._count(before, -targets)
        if state is not GONE:
            self.targets[state] += targets
            self._totals.targets[state] += targets
        if before is HELD:
            self._count_held(part.task, -part.count, -targets)
        elif state is HELD:
            self._count_held(part.task, part.count, targets)
        part.state = state

    def _count(self, state: RunState, targets: int) -> None:
        remaining = self.targets[state] + targets
        if remaining < 0:
            raise IllegalTransition(f"Lane {self.name} has fewer than {-targets} targets in state {state.name}.")
        self.targets[state] = remaining
        self._totals.targets[state] += targets

    def _count_held(self, task: str, envelopes: int, targets: int) -> None:
        self.held_envelopes += envelopes
        self._totals.held_envelopes += envelopes
        self._held.add(task, targets)
        of_task, targets_of_task = self.held_by_task.pop(task, (0, 0))
        if of_task + envelopes:
            self.held_by_task[task] = of_task + envelopes, targets_of_task + targets
