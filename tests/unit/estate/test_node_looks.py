"""A look at nodes: what is not known never counts as well, nor as enough."""

from dataclasses import replace

import pytest

from estate.rules.cluster import BookieMode, BookieState, BrokerLoad, Estate, NamespaceState
from estate.rules.guarded import Guarded
from estate.rules.node_life import Intent, NodeKind, NodeRecord
from estate.rules.node_looks import ProbeLook, budget_of, node_looks, unseen_kinds
from estate.rules.slow_nodes import JudgeSettings, NodeLook

BOUNDS = JudgeSettings()
SPACE = NamespaceState(name="t/a", ensemble=2, write_quorum=2, ack_quorum=2, bundles=1)
BOOKIE = BookieState(name="b:1", mode=BookieMode.WRITABLE, disk_used=0.4, broker_p99_ms=12.0)


def look_at(bookie: BookieState, probe: ProbeLook | None = None, record: NodeRecord | None = None) -> NodeLook:
    probes = {} if probe is None else {"bookie/b:1": probe}
    nodes = {} if record is None else {record.key: record}
    (look,) = node_looks(Estate(bookies=(bookie,)), nodes, probes, frozenset(), BOUNDS)
    return look


@pytest.mark.parametrize(
    ("bookie", "probe", "is_well"),
    [
        (BOOKIE, ProbeLook(5.0), True),
        (BOOKIE, None, False),
        (BOOKIE, ProbeLook(None), False),
        (BOOKIE, ProbeLook(301.0), False),
        (BOOKIE, ProbeLook(5.0, "no answer"), False),
        (replace(BOOKIE, failure="no answer"), ProbeLook(5.0), False),
        (replace(BOOKIE, disk_used=0.95), ProbeLook(5.0), False),
        (replace(BOOKIE, fsync_p99_ms=400.0), ProbeLook(5.0), False),
        (replace(BOOKIE, fsync_p99_ms=4.0, disk_used=None), ProbeLook(5.0), True),
    ],
)
def test_a_bookie_is_well_if_it_answers_quickly_and_has_space(
    bookie: BookieState, probe: ProbeLook | None, *, is_well: bool
) -> None:
    assert look_at(bookie, probe).well is is_well


def test_a_bookie_of_which_no_list_was_read_is_as_it_was() -> None:
    unknown = replace(BOOKIE, mode=BookieMode.UNKNOWN)
    record = NodeRecord(kind=NodeKind.BOOKIE, name="b:1", state="isolated")
    assert look_at(unknown).in_service
    assert not look_at(unknown, record=record).in_service
    assert not look_at(replace(BOOKIE, mode=BookieMode.GONE)).present


def test_a_broker_is_judged_by_its_probe_and_isolated_as_long_as_it_has_no_bundles() -> None:
    record = NodeRecord(kind=NodeKind.BROKER, name="k:1", state="isolated")
    estate, probes = Estate(brokers=(BrokerLoad(name="k:1"),)), {"broker/k:1": ProbeLook(7.0)}
    (idle,) = node_looks(estate, {record.key: record}, probes, frozenset(), BOUNDS)
    (loaded,) = node_looks(estate, {record.key: record}, probes, frozenset({"k:1"}), BOUNDS)
    assert (idle.p99_ms, idle.well, idle.in_service, loaded.in_service) == (7.0, True, False, True)
    silent = Estate(brokers=(BrokerLoad(name="k:1", failure="answered 500"),))
    (one,) = node_looks(silent, {}, probes, frozenset(), BOUNDS)
    assert not one.well


def test_times_that_a_slow_broker_sees_say_nothing_about_bookies() -> None:
    brokers = (
        BrokerLoad(name="k:1", bookies_p99_ms={"b:1": 900.0}),
        BrokerLoad(name="l:1", bookies_p99_ms={"b:1": 12.0}),
    )
    estate = Estate(brokers=brokers, bookies=(replace(BOOKIE, broker_p99_ms=900.0),))
    well, slow = ProbeLook(4.0), ProbeLook(800.0)
    for probes, p99_ms in (
        ({"broker/k:1": well, "broker/l:1": well}, 900.0),
        ({"broker/k:1": slow, "broker/l:1": well}, 12.0),
        ({"broker/k:1": slow, "broker/l:1": slow}, None),
    ):
        assert node_looks(estate, {}, probes, frozenset(), BOUNDS)[-1].p99_ms == p99_ms


def test_the_budget_is_that_of_the_largest_ensemble_of_all_namespaces() -> None:
    spaces = (SPACE, replace(SPACE, name="t/b", ensemble=3))
    assert budget_of(Estate(namespaces=spaces)).bookies == 4


@pytest.mark.parametrize(
    "estate",
    [
        Estate(),
        Estate(namespaces=(SPACE,), unread={"policies/t/b": "answered 500"}),
        Estate(namespaces=(SPACE, replace(SPACE, name="t/b", ensemble=0))),
    ],
)
def test_one_namespace_that_was_not_read_makes_the_budget_unknown(estate: Estate) -> None:
    assert budget_of(estate).bookies is None


def test_bookies_that_cannot_be_counted_are_not_isolated() -> None:
    assert "estate.bookie_http" in budget_of(Estate(bookies_asked=False)).uncounted
    assert "which bookies are writable" in budget_of(Estate(bookies=(BookieState(name="b:1"),))).uncounted
    assert not budget_of(Estate(bookies=(BOOKIE,))).uncounted


def test_kinds_that_could_not_be_listed_are_unseen() -> None:
    listed = Estate(brokers=(BrokerLoad(name="k:1"),), bookies=(BOOKIE,), unread={"policies/t/a": "answered 500"})
    assert unseen_kinds(listed) == set()
    assert unseen_kinds(replace(listed, unread={"bookies": "no answer"})) == {NodeKind.BOOKIE}
    assert unseen_kinds(replace(listed, brokers=())) == {NodeKind.BROKER}


# ---------------------------------------------------------------- in words
HELD = NodeRecord(kind=NodeKind.BOOKIE, name="b:1", state="isolated", by_guard=True, well_ms=3_000, hold_ms=300_000)


@pytest.mark.parametrize(
    ("node", "note"),
    [
        (HELD, "isolated, well for 3 of 300 s"),
        (NodeRecord(kind=NodeKind.BOOKIE, name="b:1", state="isolated"), "isolated by hand"),
        (NodeRecord(kind=NodeKind.BOOKIE, name="b:1", state="serving", probation_ms=90_000), "on probation for 90 s"),
        (NodeRecord(kind=NodeKind.BOOKIE, name="b:1", state="serving"), None),
        (NodeRecord(kind=NodeKind.BOOKIE, name="b:1", state="suspect"), "suspect"),
        (NodeRecord(kind=NodeKind.BOOKIE, name="b:1", intent=Intent.ISOLATE), "isolate is under way"),
    ],
)
def test_a_state_is_said_in_words(node: NodeRecord, note: str | None) -> None:
    assert Guarded("g1", {node.key: node}).note(NodeKind.BOOKIE, "b:1") == note


def test_what_a_dead_guard_left_is_wrong_until_another_one_runs() -> None:
    begun = NodeRecord(kind=NodeKind.BROKER, name="k:1", state="draining", intent=Intent.ISOLATE, by_guard=True)
    asked = NodeRecord(kind=NodeKind.BOOKIE, name="c:1", state="suspect", intent=Intent.ISOLATE, by_guard=True)
    nodes = {node.key: node for node in (HELD, begun, asked)}
    assert list(Guarded(None, nodes).wrong()) == [
        "bookie b:1 is isolated, and no guard runs that would release it",
        "broker k:1 is draining, and no guard runs that would release it",
        "to isolate bookie c:1 was begun by a guard that ended, and none runs",
    ]
    assert Guarded(None, nodes).note(NodeKind.BOOKIE, "c:1") == "isolate was begun by a guard that ended"
    assert list(Guarded("g2", nodes).wrong()) == ["broker k:1 is draining by the guard"]
    assert Guarded(failure="no answer").title is None
    assert (Guarded().title, Guarded("g2").title) == ("none", "g2")
