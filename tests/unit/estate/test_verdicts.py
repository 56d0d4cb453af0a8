"""A slow node is isolated within its budget and put back; whatever is looked at, too few are never left."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from estate.rules.node_life import NODE_LIFE, Intent, NodeKind, NodeRecord, decode_nodes, encode_nodes
from estate.rules.slow_nodes import Budget, Command, JudgeSettings, LookResult, NodeLook, carried_out, judge

BOUNDS = JudgeSettings(release_ms=10_000, longest_hold_ms=35_000, stale_ms=1)
LOOK_MS = 2_000.0


@dataclass
class Bookies:
    """Bookies as the guard sees and commands them."""

    count: int
    ensemble: int | None = 2
    p99_ms: dict[int, float] = field(default_factory=dict)
    sick: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    read_only: set[int] = field(default_factory=set)
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    now_ms: float = 0.0
    bounds: JudgeSettings = BOUNDS

    def name(self, number: int) -> str:
        return f"127.0.0.{number}:3181"

    def state(self, number: int) -> str:
        return self.nodes[f"bookie/{self.name(number)}"].state

    def looks(self) -> list[NodeLook]:
        return [
            NodeLook(
                kind=NodeKind.BOOKIE,
                name=self.name(number),
                p99_ms=None if number in self.read_only else self.p99_ms.get(number, 10.0),
                well=number not in self.sick,
                in_service=number not in self.read_only,
                present=number not in self.gone,
            )
            for number in range(1, self.count + 1)
        ]

    def look(self) -> LookResult:
        verdict = judge(self.nodes, self.looks(), LOOK_MS, Budget(largest_ensemble=self.ensemble), self.bounds)
        self.nodes = verdict.nodes
        self.now_ms += LOOK_MS
        return verdict

    def obey(self, command: Command | None) -> None:
        """Carry out a command, as the guard does."""
        if command is not None:
            change = self.read_only.add if command.intent is Intent.ISOLATE else self.read_only.discard
            change(self.number_of(command))
            self.nodes = carried_out(self.nodes, command, self.bounds, done=True)

    def number_of(self, command: Command) -> int:
        return next(at for at in range(1, self.count + 1) if self.name(at) == command.node.name)

    def go_on(self, looks: int) -> list[str]:
        """Look and obey; return the commands given."""
        given = []
        for _ in range(looks):
            command = self.look().command
            self.obey(command)
            given += [f"{command.intent} {command.node.name} at {self.now_ms:.0f}"] if command else []
        return given


@pytest.fixture
def bookies() -> Bookies:
    return Bookies(4)


def test_a_slow_bookie_is_isolated_after_three_looks_and_put_back_when_its_probes_are_well(bookies: Bookies) -> None:
    bookies.go_on(2)
    bookies.p99_ms[2] = 400.0
    assert bookies.go_on(2) == []
    assert bookies.go_on(1) == ["isolate 127.0.0.2:3181 at 10000"]
    bookies.p99_ms[2], bookies.sick = 10.0, {2}
    assert bookies.go_on(3) == []
    bookies.sick.clear()
    assert bookies.go_on(4) == []
    assert bookies.go_on(1) == ["release 127.0.0.2:3181 at 26000"]
    assert bookies.state(2) == "serving"


def test_a_bookie_that_is_slow_again_is_held_twice_as_long_up_to_a_bound(bookies: Bookies) -> None:
    bookies.p99_ms[2] = 400.0
    commands = bookies.go_on(80)
    times = [float(command.rpartition(" ")[2]) for command in commands]
    held = [released - isolated for isolated, released in zip(times[::2], times[1::2], strict=False)]
    assert held[:4] == [10_000, 20_000, 36_000, 36_000]  # whole looks of 2 s; the bound is 35 s


def test_a_bookie_that_was_well_for_its_whole_probation_is_held_for_the_first_time_again(bookies: Bookies) -> None:
    bookies.p99_ms[2] = 400.0
    bookies.go_on(9)
    bookies.p99_ms[2] = 10.0
    bookies.go_on(8)
    bookies.p99_ms[2] = 400.0
    isolated, released = (float(command.rpartition(" ")[2]) for command in bookies.go_on(9))
    assert released - isolated == 10_000


def test_a_single_slow_look_says_nothing(bookies: Bookies) -> None:
    for p99_ms in (10.0, 400.0, 400.0, 10.0) * 5:
        bookies.p99_ms[1] = p99_ms
        assert bookies.go_on(1) == []
        assert bookies.state(1) == "serving"


def test_a_look_without_traffic_neither_clears_nor_condemns(bookies: Bookies) -> None:
    for p99_ms in (10.0, 400.0, 400.0, float("nan"), float("nan")):
        bookies.p99_ms[1] = p99_ms
        bookies.go_on(1)
    assert bookies.state(1) == "serving"
    bookies.p99_ms[1] = 400.0
    assert len(bookies.go_on(1)) == 1


@pytest.mark.parametrize(
    ("count", "ensemble", "slow", "reason"),
    [
        (3, 2, (1,), "2 writable bookies would be left of at least 3"),
        (4, None, (1,), "the ensemble sizes of the namespaces are not known"),
        (5, 2, (1, 2), "2 of 5 are slow, which has a cause that they share"),
    ],
)
def test_a_slow_bookie_stays_in_use_if_the_budget_forbids_it(
    count: int, ensemble: int | None, slow: tuple[int, ...], reason: str
) -> None:
    bookies = Bookies(count, ensemble)
    bookies.p99_ms.update(dict.fromkeys(slow, 900.0))
    assert bookies.go_on(3) == []
    verdict = bookies.look()
    assert verdict.command is None
    assert f"bookie 127.0.0.1:3181 is slow and stays in use: {reason}" in verdict.remarks
    assert bookies.state(1) == "suspect"


def test_one_at_a_time() -> None:
    bookies = Bookies(9)
    bookies.p99_ms.update({1: 400.0, 2: 900.0})
    assert bookies.go_on(4) == ["isolate 127.0.0.2:3181 at 8000"]
    assert "one node at a time" in bookies.look().remarks[0]
    assert bookies.read_only == {2}


def test_bookies_that_are_all_slow_alike_are_not_slow(bookies: Bookies) -> None:
    bookies.p99_ms.update(dict.fromkeys(range(1, 5), 900.0))
    assert bookies.go_on(10) == []
    assert {bookies.state(number) for number in range(1, 5)} == {"serving"}


def test_a_command_that_was_not_carried_out_is_given_again(bookies: Bookies) -> None:
    bookies.p99_ms[2] = 400.0
    bookies.go_on(3)
    for _ in range(5):
        command = bookies.look().command
        assert command is not None
        bookies.nodes = carried_out(bookies.nodes, command, BOUNDS, done=False)
    assert bookies.nodes[f"bookie/{bookies.name(2)}"].hold_ms == 0


def test_a_bookie_that_somebody_else_puts_back_is_on_probation(bookies: Bookies) -> None:
    bookies.p99_ms[2] = 400.0
    bookies.go_on(5)
    bookies.read_only.clear()
    bookies.look()
    assert bookies.state(2) == "serving"
    assert bookies.nodes[f"bookie/{bookies.name(2)}"].probation_ms == 10_000


def test_figures_of_before_a_bookie_came_back_are_not_held_against_it() -> None:
    bookies = Bookies(4, bounds=replace(BOUNDS, stale_ms=20_000))
    bookies.p99_ms[2] = 400.0
    bookies.go_on(5)
    bookies.read_only.clear()
    assert bookies.go_on(10) == []
    assert bookies.state(2) == "serving"
    assert len(bookies.go_on(3)) == 1


def test_a_bookie_that_disappears_while_it_is_isolated_is_found_as_it_was_left(bookies: Bookies) -> None:
    bookies.p99_ms[2] = 400.0
    bookies.go_on(5)
    bookies.gone.add(2)
    bookies.look()
    assert bookies.state(2) == "gone"
    bookies.gone.clear()
    bookies.look()
    assert bookies.state(2) == "isolated"
    bookies.p99_ms.clear()
    assert len(bookies.go_on(10)) == 1
    assert bookies.state(2) == "serving"


def test_a_slow_broker_is_drained_if_another_one_is_left() -> None:
    def look(nodes: Mapping[str, NodeRecord], *, peer_well: bool) -> LookResult:
        broker = NodeLook(kind=NodeKind.BROKER, name="a", p99_ms=900.0)
        peers = [NodeLook(kind=NodeKind.BROKER, name=name, p99_ms=5.0, well=peer_well) for name in ("b", "c")]
        return judge(nodes, [broker, *peers], 1_000, Budget(largest_ensemble=None), BOUNDS)

    verdict = look({}, peer_well=False)
    for _ in range(4):
        verdict = look(verdict.nodes, peer_well=False)
    assert verdict.command is None
    verdict = look(verdict.nodes, peer_well=True)
    assert verdict.command is not None
    after = carried_out(verdict.nodes, verdict.command, BOUNDS, done=True)
    assert after["broker/a"].state == "isolated"


@settings(max_examples=60)
@given(st.integers(2, 7), st.integers(1, 4), st.data())
def test_whatever_is_looked_at_too_few_are_never_left_and_the_table_is_kept(
    count: int, ensemble: int, data: st.DataObject
) -> None:
    """Bookies become slow, sick, die and come back in any order; commands fail; the guard restarts at any look."""
    bookies = Bookies(count, ensemble)
    numbers = st.sets(st.integers(1, count), max_size=count)
    for _ in range(data.draw(st.integers(1, 25))):
        bookies.p99_ms = dict.fromkeys(data.draw(numbers), data.draw(st.sampled_from([250.0, 400.0, float("nan")])))
        bookies.sick, bookies.gone = data.draw(numbers), data.draw(numbers)
        before = len(bookies.read_only)
        command = bookies.look().command
        if command is not None and command.intent is Intent.ISOLATE:
            assert not [node for node in bookies.nodes.values() if node.out_of_service], "one node at a time"
        assert {node.state for node in bookies.nodes.values()} <= set(NODE_LIFE.states)
        if data.draw(st.booleans()):
            bookies.obey(command)
        elif command is not None:
            bookies.nodes = carried_out(bookies.nodes, command, BOUNDS, done=False)
        if len(bookies.read_only) > before:
            writable = set(range(1, count + 1)) - bookies.read_only - bookies.gone
            assert len(writable) >= ensemble + 1
        assert decode_nodes(encode_nodes(bookies.nodes)) == bookies.nodes


@dataclass
class Isolations:
    """Which bookies are read-only, and by whom."""

    by_guard: set[int] = field(default_factory=set)
    by_hand: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    """Those of which the guard once did not hear the end of a command."""
    latest: set[int] = field(default_factory=set)
    """The one that was made read-only last, if the guard did not hear of it."""

    def carry_out(self, bookies: Bookies, command: Command, end: str) -> None:
        """Let a command end: done, failed, or without news of its end, whether it was done or not."""
        number = bookies.number_of(command)
        if number in self.by_guard and command.intent is Intent.ISOLATE:
            end = "failed"  # it is read-only already
        self.latest = {number} if end == "done unheard" and command.intent is Intent.ISOLATE else set()
        if end in ("done", "done unheard"):
            (self.by_guard.add if command.intent is Intent.ISOLATE else self.by_guard.discard)(number)
        if end in ("done", "failed"):
            bookies.nodes = carried_out(bookies.nodes, command, BOUNDS, done=end == "done")
        else:
            self.unknown.add(number)


@settings(max_examples=60)
@given(st.integers(3, 6), st.data())
def test_what_the_guard_isolated_is_released_and_what_others_did_is_left_to_them(
    count: int, data: st.DataObject
) -> None:
    """Commands are lost or their ends are, nodes cannot be listed, guards restart, operators change what they like."""
    bookies, by = Bookies(count, ensemble=1), Isolations()
    numbers = st.sets(st.integers(1, count), max_size=count)
    for _ in range(data.draw(st.integers(1, 20))):
        bookies.p99_ms = dict.fromkeys(data.draw(numbers), 400.0)
        by.by_hand = data.draw(st.sets(st.sampled_from(range(1, count + 1)), max_size=1)) - by.by_guard
        late = data.draw(st.booleans())  # the list of writable bookies does not show the last change yet
        bookies.read_only = (by.by_guard - by.latest if late else by.by_guard) | by.by_hand
        unseen = data.draw(st.sets(st.sampled_from(NodeKind)))
        looks = [] if NodeKind.BOOKIE in unseen else bookies.looks()
        budget = Budget(largest_ensemble=1)
        verdict = judge(bookies.nodes, looks, LOOK_MS, budget, BOUNDS, unseen, acts=data.draw(st.booleans()))
        command = verdict.command
        bookies.nodes = decode_nodes(encode_nodes(verdict.nodes))
        if command is not None and bookies.nodes[command.node.key].intent is not Intent.NONE:
            number = bookies.number_of(command)
            if command.intent is Intent.RELEASE:
                assert number in by.by_guard | by.unknown, "what somebody else did is left to them"
            ends = ["done", "failed", "done unheard", "lost"]
            by.carry_out(bookies, command, data.draw(st.sampled_from(ends)))
        assert {node.state for node in bookies.nodes.values()} <= set(NODE_LIFE.states)
    by.by_hand -= by.unknown
    bookies.p99_ms.clear()
    for _ in range(80):
        bookies.read_only = by.by_guard | by.by_hand
        command = bookies.look().command
        if command is not None:
            by.carry_out(bookies, command, "done")
    assert not by.by_guard, "all that the guard isolated is released once it is well"
    assert {number for number in by.by_hand if bookies.state(number) != "isolated"} == set()


def test_an_isolated_bookie_is_released_at_once_if_too_few_others_are_left(bookies: Bookies) -> None:
    """A slow bookie is better than none."""
    bookies.p99_ms[2] = 400.0
    bookies.sick.add(2)
    bookies.go_on(5)
    assert bookies.read_only == {2}
    bookies.gone.add(3)
    command = bookies.look().command
    assert command is not None
    assert (command.intent, command.reason) == (Intent.RELEASE, "only 2 writable bookies are left of at least 3")
    bookies.obey(command)
    assert bookies.go_on(10) == []
    assert bookies.state(2) == "suspect"


def test_brokers_that_are_gone_are_forgotten_after_their_probation() -> None:
    node = NodeRecord(kind=NodeKind.BROKER, name="k", state="isolated", hold_ms=5_000, by_guard=True)
    nodes: Mapping[str, NodeRecord] = {node.key: node, "broker/l": NodeRecord(kind=NodeKind.BROKER, name="l")}
    states = []
    for _ in range(5):
        nodes = judge(nodes, [], LOOK_MS, Budget(largest_ensemble=2), BOUNDS).nodes
        states.append({key: one.state for key, one in nodes.items()})
    assert states[0] == {"broker/k": "gone", "broker/l": "gone"}
    assert states[1:] == [{"broker/k": "gone"}, {"broker/k": "gone"}, {}, {}]


def test_more_than_a_third_above_the_limit_is_said_even_if_none_is_slow_beside_its_peers(bookies: Bookies) -> None:
    bookies.p99_ms.update(dict.fromkeys(range(1, 5), 900.0))
    assert bookies.look().remarks == ("4 of 4 bookies are above 300 ms: they share a cause",)


def test_a_guard_that_does_not_act_leaves_no_intent(bookies: Bookies) -> None:
    bookies.p99_ms[2] = 400.0
    bookies.go_on(3)
    verdict = judge(bookies.nodes, bookies.looks(), LOOK_MS, Budget(largest_ensemble=2), BOUNDS, acts=False)
    assert verdict.command is not None
    assert {node.intent for node in verdict.nodes.values()} == {Intent.NONE}
    assert not [node for node in verdict.nodes.values() if node.by_guard]


@pytest.mark.parametrize("elapsed_ms", [-1e9, 1e12])
def test_a_clock_that_jumps_releases_nothing_early(elapsed_ms: float) -> None:
    node = NodeRecord(kind=NodeKind.BOOKIE, name="a", state="isolated", hold_ms=300_000)
    one = NodeLook(kind=NodeKind.BOOKIE, name="a", in_service=False)
    verdict = judge({node.key: node}, [one], elapsed_ms, Budget(largest_ensemble=2), JudgeSettings())
    assert verdict.command is None
    assert 0 <= verdict.nodes[node.key].well_ms <= 10_000


@pytest.mark.parametrize("wrong", [{"looks": 0}, {"slow_ms": float("nan")}, {"release_ms": -1.0}])
def test_bounds_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        JudgeSettings(**wrong)  # type: ignore[arg-type]  # of any kind
