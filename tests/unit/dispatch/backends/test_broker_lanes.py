"""The lanes in what a broker says of all its topics."""

import json
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from backends.pulsar import broker_lanes
from backends.pulsar.broker_lanes import BrokerAnswer, BrokerLanes, answered_lanes
from backends.pulsar.lane_stats import lanes_of
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, Malformed, Refused, Unreachable
from dispatcher.wire.topics import Topics
from tests.records import lane_stats
from tests.virtual_clock import VirtualClock

OWN, SHARED = "fairlane/tasks-00", "fairlane/shared"
DISPATCH = {
    "consumers": [{"consumerName": "a"}, {"consumerName": "b"}],
    "msgBacklog": 4,
    "unackedMessages": 300,
    "blockedSubscriptionOnUnackedMsgs": True,
    "type": "Shared",
}
TOPIC = {
    "publishers": [{"producerName": "p"}],
    "subscriptions": {"dispatch": DISPATCH, "other": {"msgBacklog": 99}},
    "producerCount": 1,
    "msgRateIn": 1.5,
    "msgRateOut": 2.5,
    "storageSize": 12_327,
}


def statistics(**topics: object) -> bytes:
    return json.dumps({OWN: {"0x0_0x1": {"persistent": topics}}}).encode()


def test_a_lane_and_its_subscription() -> None:
    assert lanes_of(statistics(t=TOPIC), [OWN]) == [lane_stats("t")]


def test_partitions_of_a_lane_are_told_apart() -> None:
    found = lanes_of(statistics(**{"t-partition-2": TOPIC, "t-partition-10": TOPIC, "-partition-x": TOPIC}), [OWN])
    assert [(lane.topic, lane.partition) for lane in found] == [("t", 2), ("t", 10), ("-partition-x", -1)]


def test_topics_of_other_namespaces_and_kinds_are_passed_over() -> None:
    reported = {
        OWN: {"0x0_0x1": {"non-persistent": {"n": TOPIC}}, "0x1_0x2": {"persistent": {"t": {}}}},
        SHARED: {"0x0_0x1": {"persistent": {"low-0": TOPIC}}},
        "fairlane/system": {"0x0_0x1": {"persistent": {"control": TOPIC}}},
    }
    found = lanes_of(json.dumps(reported).encode(), [OWN, SHARED, "fairlane/tasks-01"])
    assert [(lane.topic, lane.backlog) for lane in found] == [("t", 0), ("low-0", 4)]


def test_what_is_not_readable_is_said() -> None:
    with pytest.raises(Malformed, match="statistics are not readable"):
        lanes_of(b'{"fairlane/tasks-00": [1]}', [OWN])


LanesAt = Callable[..., BrokerLanes]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def lists() -> list[list[str]]:
    """The lists of brokers that were asked for."""
    return []


@pytest.fixture
def lanes_at(monkeypatch: pytest.MonkeyPatch, clock: VirtualClock, lists: list[list[str]]) -> LanesAt:
    """The lanes of a cluster with a broker for each of the answers."""

    def make(*answers: bytes | FairlaneError) -> BrokerLanes:
        by_name = {f"b{number}": answer for number, answer in enumerate(answers)}

        class Admin:
            def __init__(self, settings: PulsarSettings) -> None:
                self._at = urlsplit(settings.admin_url or "").hostname or ""

            def brokers(self) -> list[str]:
                lists.append(list(by_name))
                return lists[-1]

            def runtime_configuration(self) -> dict[str, str]:
                return {}

            def topic_statistics(self) -> bytes:
                answer = by_name[self._at]
                if isinstance(answer, FairlaneError):
                    raise answer
                return answer

            def close(self) -> None: ...

        monkeypatch.setattr(broker_lanes, "PulsarAdmin", Admin)
        return BrokerLanes(PulsarSettings(admin_url="http://pulsar:8080"), Topics(), clock)

    return make


def test_a_broker_that_does_not_answer_is_named_and_the_others_are_told_of(lanes_at: LanesAt) -> None:
    looks = lanes_at(Unreachable("It is gone."), statistics(t=TOPIC)).read()
    assert looks[0] == BrokerAnswer("b0", None, "It is gone.")
    assert [(broker, lane.topic) for broker, lane in answered_lanes(looks)] == [("b1", "t")]


def test_brokers_are_looked_for_at_first_every_five_minutes_and_after_one_did_not_answer(
    lanes_at: LanesAt, clock: VirtualClock, lists: list[list[str]]
) -> None:
    lanes, two = lanes_at(b"{}", b"{}"), ["b0", "b1"]
    lanes.read()
    lanes.read()
    assert lists == [two]
    clock.advance(300)
    lanes.read()
    assert lists == [two] * 2
    lanes = lanes_at(b"{}", Unreachable("It is gone."))
    lanes.read()
    lanes.read()
    assert lists == [two] * 4


def test_who_may_not_ask_is_told_so(lanes_at: LanesAt) -> None:
    with pytest.raises(Refused, match="No rights"):
        lanes_at(statistics(t=TOPIC), Refused("No rights.")).read()
