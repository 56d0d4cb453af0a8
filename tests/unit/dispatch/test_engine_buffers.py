"""A lane's buffer: its runs take legal steps only, and its gauges equal a recount."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dispatcher.engine.buffers import (
    ASKED,
    CREDIT,
    GONE,
    HELD,
    IN_MEMORY,
    NEXT,
    OUT,
    WAITING,
    BufferTotals,
    Credit,
    IllegalTransition,
    LaneBuffer,
)
from dispatcher.engine.runs import EnvelopeRun, RunState
from dispatcher.ports import Delivery, LaneInfo
from dispatcher.scheduling.scheduler import Scheduler
from dispatcher.scheduling.shared_bound import SharedBound
from dispatcher.wire.lease import LaneKind
from tests.thorough import TIMES
from tests.unit.dispatch.consumers.envelopes import envelope

ROOT = Path(__file__).parents[3]
OWNER = ROOT / "dispatcher/engine/buffers.py"
MUTATORS = frozenset(
    ("add", "append", "appendleft", "clear", "extend", "extendleft", "insert", "pop", "popleft", "remove", "update")
)


def delivery(task: str, sequence: int, targets: int) -> Delivery:
    return Delivery(envelope(sequence, ["x"] * targets, task=task), None, 0.0)


class Lanes:
    """Buffers of one worker."""

    def __init__(self) -> None:
        self.totals = BufferTotals()
        self.held = SharedBound(1_000_000, lambda task: 0)
        self.drains: Scheduler[LaneBuffer] = Scheduler()
        self.scheduler: Scheduler[Credit] = Scheduler()

    def lane(self, name: str) -> LaneBuffer:
        info = LaneInfo(name=name, kind=LaneKind.SHARED, tier="low", weight=1_000, chunk=10)
        return LaneBuffer(info, self.drains, self.totals, self.held)


class BufferSteps(RuleBasedStateMachine):
    """Two lanes take any steps. `apart` has the runs that a lane does not keep by itself: asked, held and out."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Lanes()
        self.lanes = [self.world.lane("a"), self.world.lane("b")]
        self.apart: list[tuple[LaneBuffer, EnvelopeRun]] = []
        self.sequence = 0

    @rule(index=st.integers(0, 1), task=st.sampled_from("tu"), count=st.integers(1, 6), size=st.integers(1, 3))
    def receive(self, index: int, task: str, count: int, size: int) -> None:
        lane = self.lanes[index]
        lane.append([delivery(task, self.sequence + i, size) for i in range(count)], 0)
        self.sequence += count

    @rule(index=st.integers(0, 1), room=st.integers(1, 20))
    def ask(self, index: int, room: int) -> None:
        lane = self.lanes[index]
        lane.take_wants(room, 5, 0)
        self.apart += [(lane, part) for part in lane.end_call()]

    @rule(index=st.integers(0, 1), envelopes=st.integers(1, 5), room=st.integers(1, 20))
    def send(self, index: int, envelopes: int, room: int) -> None:
        lane = self.lanes[index]
        for credit in lane.credit.values():
            if credit.queue:
                sent = credit.take(envelopes, room)
                assert {(part.state, part.claim) for part in sent} == {(OUT, sent[0].claim)}
                self.apart += [(lane, part) for part in sent]

    @rule(index=st.integers(0, 1), limit_s=st.floats(0, 3))
    def expire(self, index: int, limit_s: float) -> None:
        for credit in self.lanes[index].credit.values():
            for part in reversed(credit.pop_late(limit_s)):
                self.lanes[index].put_back(part)

    @precondition(lambda self: self.apart)
    @rule(data=st.data(), split=st.booleans(), states=st.lists(st.sampled_from(RunState), min_size=1, max_size=8))
    def move(self, data: st.DataObject, split: bool, states: list[RunState]) -> None:
        """Try any steps with a run. One that the table does not have is refused and changes nothing."""
        lane, part = self.apart.pop(data.draw(st.integers(0, len(self.apart) - 1)))
        if split and part.count > 1:
            self.apart.append((lane, part))
            part = part.take(1)
        for state in states:
            before = part.state
            if state in NEXT[before]:
                self.step(lane, part, state)
            else:
                with pytest.raises(IllegalTransition):
                    self.step(lane, part, state)
                assert part.state is before
            if part.state not in (ASKED, HELD, OUT):
                return
        self.apart.append((lane, part))

    def step(self, lane: LaneBuffer, part: EnvelopeRun, state: RunState) -> None:
        match state:
            case RunState.WAITING:
                lane.put_back(part)
            case RunState.ASKED:
                lane.ask_again(part)
                lane.leave_out([part])
            case RunState.CREDIT:
                lane.grant(
                    part.granted(f"claim.{part.first % 2}", float(part.first % 4), 0.0),
                    part.channel,
                    self.world.scheduler,
                    0.0,
                )
            case RunState.HELD:
                lane.hold(part)
            case RunState.OUT:
                lane.take_out(part)
            case RunState.GONE:
                lane.drop(part)

    @precondition(lambda self: any(part.state is OUT for _, part in self.apart))
    @rule()
    def ack(self) -> None:
        lane, part = next(one for one in self.apart if one[1].state is OUT)
        self.apart = [one for one in self.apart if one[1] is not part]
        lane.ack(part.targets)

    @rule(index=st.integers(0, 1))
    def park_and_unpark(self, index: int) -> None:
        lane = self.lanes[index]
        (lane.unpark if lane.parked else lane.park)()

    @rule(index=st.integers(0, 1))
    def close(self, index: int) -> None:
        lane = self.lanes[index]
        if lane.parked:
            lane.unpark()
        assert all(part.state is GONE for part in lane.close())
        self.apart = [(one, part) for one, part in self.apart if one is not lane or part.state is not HELD]
        self.gauges_equal_a_recount()
        for part in [part for one, part in self.apart if one is lane]:
            lane.put_back(part)
        self.apart = [one for one in self.apart if one[0] is not lane]
        assert lane.is_settled
        assert not any(lane.targets)
        self.lanes[index] = self.world.lane(lane.name)

    @invariant()
    def gauges_equal_a_recount(self) -> None:
        totals = Counter[RunState]()
        for lane in self.lanes:
            found = self.recount(lane)
            assert lane.targets == [found[state] for state in IN_MEMORY]
            totals += found
        held = [part for _, part in self.apart if part.state is HELD]
        assert self.world.totals.targets == [totals[state] for state in IN_MEMORY]
        assert self.world.totals.held_envelopes == sum(part.count for part in held)
        assert self.world.held.targets == totals[HELD]
        assert self.world.totals.parked_lanes == sum(lane.parked for lane in self.lanes)

    def recount(self, lane: LaneBuffer) -> Counter[RunState]:
        queued = [part for credit in lane.credit.values() for part in credit.queue]
        found = Counter[RunState]()
        for part in (*lane.waiting, *queued, *(part for one, part in self.apart if one is lane)):
            found[part.state] += part.targets
        assert all(part.state is WAITING for part in lane.waiting)
        assert all(part.state is CREDIT for part in queued)
        return found


TestBufferSteps = BufferSteps.TestCase
TestBufferSteps.settings = settings(max_examples=max(20, round(150 * TIMES)), stateful_step_count=60, deadline=None)


# ------------------------------------------------------------------ steps that are refused
@pytest.mark.parametrize(
    ("before", "state"), [(WAITING, CREDIT), (WAITING, OUT), (HELD, CREDIT), (CREDIT, HELD), (OUT, CREDIT), (GONE, OUT)]
)
def test_only_what_is_asked_for_is_granted_and_only_what_is_granted_is_sent(before: RunState, state: RunState) -> None:
    assert state not in NEXT[before]


def test_a_run_of_another_lane_is_refused() -> None:
    world = Lanes()
    mine, other = world.lane("a"), world.lane("b")
    mine.append([delivery("t", 0, 5)], 0)
    (part,) = mine.take_wants(5, 1, 0)
    with pytest.raises(IllegalTransition, match="Lane b has fewer than 5 targets in state ASKED"):
        other.put_back(part)


def test_a_closed_lane_opens_no_more_and_has_forgotten_what_it_held() -> None:
    lane = Lanes().lane("a")
    lane.append([delivery("t", 0, 5)], 0)
    (part,) = lane.take_wants(5, 1, 0)
    lane.end_call()
    lane.hold(part)
    lane.close()
    assert lane.targets == [0, 0, 0, 0, 0]
    with pytest.raises(IllegalTransition, match="cannot go from CLOSING to PARKED"):
        lane.park()
    with pytest.raises(IllegalTransition, match="fewer than 5 targets in state HELD"):
        lane.put_back(part)


def test_no_more_is_acked_than_is_out() -> None:
    lane = Lanes().lane("a")
    lane.append([delivery("t", 0, 5)], 0)
    lane.take_out(lane.take_wants(5, 1, 0)[0])
    lane.ack(3)
    with pytest.raises(IllegalTransition):
        lane.ack(3)


# ------------------------------------------------------------------ one owner
def test_nothing_else_writes_to_a_buffer() -> None:
    owned = {*LaneBuffer.__slots__, *Credit.__slots__, *BufferTotals.__slots__, "state"}
    users = [path for path in (ROOT / "dispatcher").rglob("*.py") if "engine.buffers import" in path.read_text()]
    assert len(users) > 5
    assert writes(OWNER, owned), "the check sees writes"
    assert {path.name: found for path in users if (found := writes(path, owned))} == {}


def writes(path: Path, owned: set[str]) -> list[int]:
    """Return the lines that write to one of these attributes of anything but self."""
    lines = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                written: ast.expr = node
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                written = node.value
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in MUTATORS:
                written = value
            case _:
                continue
        if isinstance(written, ast.Attribute) and written.attr in owned and not _is_self(written.value):
            lines.append(node.lineno)
    return lines


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


@pytest.mark.parametrize(("delay_s", "stay_ms"), [(1, 1_250), (600, 750_000)])
def test_a_run_waits_no_longer_than_its_retry_lane_takes(delay_s: int, stay_ms: int) -> None:
    """Else it would block the lane when Redis' clock is set back."""
    world, now_ms = Lanes(), 1_700_000_000_000
    info = LaneInfo(name="r", kind=LaneKind.RETRY, tier="low", weight=1_000, chunk=10, delay_s=delay_s)
    lane = LaneBuffer(info, world.drains, world.totals, world.held)
    lane.append([Delivery(envelope(0, ["x"], attempt=1, not_before_ms=now_ms + stay_ms), None, 0.0)], now_ms)
    first = lane.waiting[0]
    first.limit_due(now_ms - 60_000, delay_s)
    assert first.not_before_ms == now_ms + stay_ms
    assert not lane.take_wants(10, 10, now_ms)
    first.limit_due(now_ms - 60_001, delay_s)
    assert first.not_before_ms == 0
    assert lane.take_wants(10, 10, now_ms - 60_001)
