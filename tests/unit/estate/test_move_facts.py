"""Facts for plans of moves: owners are as of now, and bundles that an undo puts back have topics without an owner."""

import pytest

from backends.pulsar.lane_stats import TopicStats
from estate.facts.bundles import BrokerBundles
from estate.moves.facts import facts_of, unmeasured_namespaces
from estate.plans.balance import Goal, WeightedBundle
from estate.plans.placement import hash_of
from tests.unit.estate.equal_bundles import equal_bundles, name_of

TOPIC = "persistent://t/tasks-0/task-1"
[BUNDLE] = [f"t/tasks-0/{name_of(one)}" for one in equal_bundles(4) if one.holds(hash_of(TOPIC))]
OTHERS = [f"t/tasks-0/{name_of(one)}" for one in equal_bundles(4) if not one.holds(hash_of(TOPIC))]
LISTED = {"t/tasks-0": [TOPIC]}


def test_a_wanted_bundle_has_its_topics_though_no_broker_owns_it() -> None:
    answers = [BrokerBundles(broker="b1:1"), BrokerBundles(broker="b2:1", owned=(OTHERS[0],))]
    assert unmeasured_namespaces(answers[:1]) == []
    assert unmeasured_namespaces(answers[:1], {BUNDLE}) == ["t/tasks-0"]
    facts = facts_of(answers, LISTED, {BUNDLE})
    assert list(facts.topics[BUNDLE]) == [TOPIC]
    assert facts_of(answers, LISTED).topics == {}
    assert facts.bundles(Goal.LANES) == []


def test_loads_that_the_owner_measured_come_before_those_of_a_broker_that_had_the_bundle() -> None:
    past, now = TopicStats(msg_throughput_in=9.0), TopicStats(msg_throughput_in=1.0)
    answers = [
        BrokerBundles(broker="b1:1", owned=(BUNDLE,), topics={BUNDLE: {TOPIC: now}}),
        BrokerBundles(broker="b2:1", topics={BUNDLE: {TOPIC: past}}),
    ]
    for order in (answers, answers[::-1]):
        facts = facts_of(order, {})
        assert facts.topics[BUNDLE][TOPIC] == now
        assert facts.bundles(Goal.BYTES) == [WeightedBundle(BUNDLE, "b1:1", 1.0)]


def test_brokers_that_did_not_answer_are_failures_and_take_nothing() -> None:
    facts = facts_of([BrokerBundles(broker="b1:1", failure="no answer"), BrokerBundles(broker="b2:1")], {})
    assert facts.failures == ["b1:1: no answer"]
    assert facts.brokers() == ["b2:1"]


@pytest.mark.parametrize("namespace", ["pulsar/b1:1", "pulsar/c/b1:1", "sla-monitor/c/b1:1"])
def test_a_brokers_own_bundles_stay_and_their_topics_are_not_asked_for(namespace: str) -> None:
    answers = [BrokerBundles(broker="b1:1", owned=(f"{namespace}/0x00000000_0xffffffff", BUNDLE))]
    assert unmeasured_namespaces(answers) == ["t/tasks-0"]
    facts = facts_of(answers, LISTED)
    assert facts.empty("b1:1") == []
    assert [bundle.name for bundle in facts.bundles(Goal.LANES)] == [BUNDLE]


def test_each_goal_weighs_bundles_by_its_own_load() -> None:
    lanes = {f"{TOPIC}-{number}": TopicStats(msg_throughput_in=10.0, msg_rate_out=1.0) for number in range(4)}
    large = {TOPIC: TopicStats(msg_throughput_out=20.0, msg_rate_in=8.0)}
    answers = [
        BrokerBundles(broker="a", owned=("t/n/1", "t/n/2"), topics={"t/n/1": lanes, "t/n/2": large}, cpu=(60.0, 200.0)),
        BrokerBundles(broker="b", owned=("u/n/1",), topics={"u/n/1": {TOPIC: TopicStats()}}, cpu=(5.0, 200.0)),
        BrokerBundles(broker="c", failure="no answer"),
    ]
    facts = facts_of(answers, {})
    weights = {goal: [bundle.weight for bundle in facts.bundles(goal)] for goal in Goal}
    assert weights == {Goal.BYTES: [40.0, 20.0, 0.0], Goal.LANES: [4.0, 1.0, 1.0], Goal.CPU: [20.0, 40.0, 0.0]}


def test_a_bundle_without_topics_is_empty_and_is_not_moved() -> None:
    facts = facts_of([BrokerBundles(broker="b1:1", owned=(BUNDLE, OTHERS[0]))], LISTED)
    assert facts.empty("b1:1") == [OTHERS[0]]
    assert [bundle.name for bundle in facts.bundles(Goal.LANES)] == [BUNDLE]
