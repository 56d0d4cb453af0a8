"""Lanes on a real Pulsar: nothing is lost, nothing waits for a poll, and nothing blocks the engine."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from consumers.lanes import attachment
from consumers.lanes.opening import Opening, OpenSettings
from consumers.lanes.prefetch import PrefetchSettings
from consumers.lanes.pulsar_lanes import LaneSettings
from dispatcher.ports import Delivery
from dispatcher.wire.envelope import decode_envelope, encode_envelope
from dispatcher.wire.topics import Topics
from tests.integration.lane_helpers import Dock, envelope, publish, publish_envelopes
from tests.integration.pulsar_helpers import DEADLINE_S, Tenant, eventually


@pytest.fixture
def docks(client: pulsar.Client) -> Iterator[Callable[..., Dock]]:
    """Makes docks, and stops them in the end."""
    made: list[Dock] = []

    def make(settings: LaneSettings | None = None) -> Dock:
        made.append(Dock(client, settings))
        return made[-1]

    yield make
    for dock in made:
        assert dock.lanes.stop(DEADLINE_S)


@pytest.fixture
def dock(docks: Callable[..., Dock]) -> Dock:
    return docks()


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> list[Opening]:
    """Every opening of a consumer that begins."""
    begun: list[Opening] = []

    def begin(*args: Any) -> Opening:
        begun.append(Opening(*args))
        return begun[-1]

    monkeypatch.setattr(attachment, "Opening", begin)
    return begun


def sequences(deliveries: Sequence[Delivery]) -> list[int]:
    return [delivery.envelope.sequence for delivery in deliveries]


# ---------------------------------------------------------------- order, limits, arming
def test_a_backlog_is_drained_in_order_up_to_the_limit(client: pulsar.Client, lane: str, dock: Dock) -> None:
    publish_envelopes(client, lane, range(250))
    dock.attach(lane)
    assert dock.ready.get(timeout=DEADLINE_S) == lane
    first, empty = dock.lanes.drain(lane, 100)
    assert sequences(first) == list(range(len(first)))
    assert (len(first) == 100) == (not empty)
    rest = dock.drained(lane, 30) if not empty else []
    seen = first + rest
    seen += dock.take(250 - len(seen))
    assert sequences(seen) == list(range(250))
    assert seen[0].envelope.targets == ["target-0-0"]
    assert dock.lanes.unacked(lane) == 250


def test_the_limit_is_in_targets_and_exceeded_by_less_than_an_envelope(
    client: pulsar.Client, lane: str, dock: Dock
) -> None:
    publish_envelopes(client, lane, range(5), targets=40)
    dock.attach(lane, chunk=40)
    assert len(dock.take(1, max_targets=1_000)) + len(dock.drained(lane)) <= 5
    dock.lanes.detach(lane)
    eventually(lambda: dock.lanes.attached() == 0, "detached")
    dock.attach(lane, chunk=40)
    dock.ready.get(timeout=DEADLINE_S)
    eventually(lambda: len(dock.lanes.drain(lane, 50)[0]) == 2, "two envelopes of 40 targets at a limit of 50")


def test_an_empty_lane_announces_itself_each_time_something_comes(client: pulsar.Client, lane: str, dock: Dock) -> None:
    dock.attached(lane)
    assert dock.lanes.drain(lane, 10) == ([], True)
    for number in range(5):
        publish_envelopes(client, lane, [number])
        assert sequences(dock.take(1)) == [number]
        assert dock.lanes.drain(lane, 10) == ([], True)


def test_lanes_do_not_wait_for_each_other(tenant: Tenant, lane: str, dock: Dock) -> None:
    busy = tenant.names.own_lane("another-task")
    tenant.admin.create_lane(busy)
    dock.attach(lane)
    dock.attach(busy)
    publish_envelopes(tenant.client, busy, range(30))
    assert sequences(dock.take(30)) == list(range(30))
    assert dock.lanes.unacked(lane) == 0


# ---------------------------------------------------------------- acks and copies
@pytest.mark.parametrize(
    ("batch_index_acks", "again"),
    [(False, [*range(20), *range(40, 60)]), (True, [*range(10), *range(50, 60)])],
    ids=["whole batches", "single messages"],
)
def test_what_is_acked_is_gone_and_what_is_not_goes_to_others(
    batch_index_acks: bool, again: list[int], tenant: Tenant, lane: str, docks: Callable[..., Dock]
) -> None:
    publish_envelopes(tenant.client, lane, range(60))
    settings = LaneSettings(opening=OpenSettings(batch_index_acks=batch_index_acks))
    first, second = docks(settings), docks(settings)
    first.attach(lane)
    deliveries = first.take(60)
    first.lanes.ack(lane, deliveries[10:50])
    assert first.lanes.unacked(lane) == 20
    eventually(
        lambda: tenant.admin.stats(lane)["subscriptions"]["dispatch"]["unackedMessages"] <= 40, "the acks arrived"
    )
    second.attached(lane)
    first.lanes.detach(lane)
    assert sorted(sequences(second.take(len(again)))) == again


def test_two_consumers_share_a_lane(client: pulsar.Client, lane: str, docks: Callable[..., Dock]) -> None:
    left, right = docks(), docks()
    left.attached(lane)
    right.attached(lane)
    publish_envelopes(client, lane, range(1_000))
    seen: dict[str, list[Delivery]] = {"left": [], "right": []}

    def all_came() -> bool:
        seen["left"] += left.drained(lane)
        seen["right"] += right.drained(lane)
        return sum(map(len, seen.values())) >= 1_000

    eventually(all_came, "all envelopes came")
    assert sorted(sequences(seen["left"] + seen["right"])) == list(range(1_000))
    assert seen["left"]
    assert seen["right"]


# ---------------------------------------------------------------- reconnects
def test_an_unloaded_lane_goes_on_by_itself(client: pulsar.Client, admin: PulsarAdmin, lane: str, dock: Dock) -> None:
    publish_envelopes(client, lane, range(40))
    dock.attach(lane)
    before = dock.take(40)
    dock.lanes.ack(lane, before[:20])
    eventually(lambda: admin.stats(lane)["subscriptions"]["dispatch"]["unackedMessages"] == 20, "the acks arrived")
    admin.unload(lane)
    publish_envelopes(client, lane, range(40, 60))
    after: set[int] = set()

    def all_came() -> bool:
        after.update(sequences(dock.drained(lane)))
        return after >= set(range(20, 60))

    eventually(all_came, "the unacked ones came again, and the new ones")
    assert not after & set(range(20))
    dock.lanes.ack(lane, before[20:])


# ---------------------------------------------------------------- lanes that are not there
def test_a_lane_may_be_attached_before_it_is_made(tenant: Tenant, dock: Dock) -> None:
    lane = tenant.names.own_lane("late-task")
    dock.attach(lane)
    assert dock.lanes.attached() == 0, "nobody waits until it is there"
    assert dock.lanes.drain(lane, 10) == ([], True)
    tenant.admin.create_lane(lane)
    publish_envelopes(tenant.client, lane, [0])
    assert sequences(dock.take(1)) == [0]


def test_a_lane_whose_subscription_comes_late_is_attached_soon(
    client: pulsar.Client, admin: PulsarAdmin, names: Topics, dock: Dock, openings: list[Opening]
) -> None:
    """The client does not answer such an attempt before its operation timeout (30 s)."""
    lane = names.own_lane("half-made-task")
    admin.create_topic(lane)
    dock.attach(lane)
    eventually(lambda: openings[0].attempts >= 2, "it was tried again")
    admin.create_lane(lane)
    publish_envelopes(client, lane, [0])
    assert sequences(dock.take(1)) == [0]


def test_a_missing_lane_is_given_up_and_looked_for_again_when_asked(
    tenant: Tenant, docks: Callable[..., Dock], openings: list[Opening]
) -> None:
    dock = docks(LaneSettings(opening=OpenSettings(missing_s=0.0)))
    lane = tenant.names.own_lane("deleted-task")
    dock.attach(lane)
    eventually(lambda: openings[0].over, "given up")
    tenant.admin.create_lane(lane)
    publish_envelopes(tenant.client, lane, [0])

    def announced() -> bool:
        dock.attach(lane)
        return not dock.ready.empty()

    eventually(announced, "attached again")
    assert sequences(dock.take(1)) == [0]


def test_a_lane_deleted_under_the_consumer_does_no_harm(tenant: Tenant, lane: str, dock: Dock) -> None:
    dock.attached(lane)
    tenant.admin.delete_topic(lane, force=True)
    other = tenant.names.own_lane("another-task")
    tenant.admin.create_lane(other)
    publish_envelopes(tenant.client, other, [0])
    dock.attach(other)
    assert sequences(dock.take(1)) == [0]
    dock.lanes.detach(lane)
    eventually(lambda: not tenant.admin.topic_exists(lane), "the lane stays deleted")


# ---------------------------------------------------------------- messages that are no envelopes
def test_what_cannot_be_decoded_goes_whole_to_the_dead_letters(tenant: Tenant, lane: str, dock: Dock) -> None:
    good = [encode_envelope(envelope(number)) for number in range(2)]
    garbage = [b"\xff not an envelope", b"", encode_envelope(envelope(9))[:-5]]
    publish(tenant.client, lane, [good[0], *garbage, good[1]])
    dock.attach(lane)
    deliveries = dock.take(2)
    assert sequences(deliveries) == [0, 1]
    letters = dock.letters.letters
    assert [letter.body for letter in letters] == garbage
    assert {(letter.task, tuple(letter.targets)) for letter in letters} == {("", ())}
    assert len({letter.writer for letter in letters}) == len(garbage)
    dock.lanes.ack(lane, deliveries)
    dock.drained(lane)
    eventually(lambda: tenant.admin.backlog(lane) == 0, "the backlog is gone")
    assert dock.lanes.unacked(lane) == 0


def test_without_a_receipt_what_cannot_be_decoded_is_delivered_again(
    client: pulsar.Client, lane: str, docks: Callable[..., Dock]
) -> None:
    publish(client, lane, [b"garbage", encode_envelope(envelope(0))])
    first, second = docks(), docks()
    first.letters.receipts.fail = 1
    first.attach(lane)
    first.lanes.ack(lane, first.take(1))
    first.lanes.detach(lane)
    second.attach(lane)

    def buried() -> bool:
        second.drained(lane)
        return [letter.body for letter in second.letters.letters] == [b"garbage"]

    eventually(buried, "it came again")


# ---------------------------------------------------------------- bounds
def test_a_lane_yields_nothing_while_too_much_of_it_is_held(
    client: pulsar.Client, lane: str, docks: Callable[..., Dock]
) -> None:
    dock = docks(LaneSettings(max_unacked=10))
    publish_envelopes(client, lane, range(30))
    dock.attach(lane)
    held = dock.take(10, max_targets=10)[:10]
    eventually(lambda: dock.lanes.unacked(lane) >= 10, "the limit")
    assert dock.lanes.drain(lane, 10) == ([], True)
    while not dock.ready.empty():
        dock.ready.get()
    dock.lanes.ack(lane, held)
    assert dock.ready.get(timeout=DEADLINE_S) == lane
    assert len(dock.lanes.drain(lane, 5)[0]) == 5


def test_what_is_given_back_comes_again_and_the_rest_does_not(client: pulsar.Client, lane: str, dock: Dock) -> None:
    publish_envelopes(client, lane, range(10))
    dock.attach(lane)
    first = dock.take(10)
    dock.lanes.ack(lane, first[:4])
    dock.lanes.give_back(lane, first[4:])
    assert dock.lanes.unacked(lane) == 0
    again = dock.take(6)
    assert set(range(4, 10)) <= set(sequences(again))
    dock.lanes.ack(lane, again)
    assert dock.lanes.unacked(lane) == 0


def test_a_queue_is_exchanged_only_when_it_is_far_off_and_nothing_is_held(
    client: pulsar.Client, lane: str, docks: Callable[..., Dock]
) -> None:
    dock = docks(LaneSettings(prefetch=PrefetchSettings(producer_batch=10)))
    publish_envelopes(client, lane, range(5))
    dock.attach(lane, prefetch=100)
    held = dock.take(5)
    dock.attach(lane, prefetch=1_000)
    assert dock.lanes.queue(lane) == 300
    dock.attach(lane, prefetch=400)
    dock.lanes.ack(lane, held)
    assert dock.lanes.queue(lane) == 300
    dock.attach(lane, prefetch=1_000)
    assert dock.lanes.queue(lane) == 3_000
    publish_envelopes(client, lane, [5])
    assert 5 in sequences(dock.take(1))


def test_a_queue_that_is_far_off_is_exchanged_as_soon_as_nothing_is_held(
    client: pulsar.Client, lane: str, docks: Callable[..., Dock]
) -> None:
    """A light lane to which much comes after all: a queue of one batch would hold it up for good."""
    dock = docks(LaneSettings(prefetch=PrefetchSettings(producer_batch=10)))
    publish_envelopes(client, lane, range(5))
    dock.attach(lane, prefetch=0)
    held = dock.take(5)
    dock.attach(lane, prefetch=1_000)
    dock.lanes.ack(lane, held[:4])
    assert dock.lanes.queue(lane) == 10
    dock.lanes.ack(lane, held[4:])
    assert dock.lanes.queue(lane) == 3_000
    publish_envelopes(client, lane, [5])
    assert 5 in sequences(dock.take(1))


def test_lanes_that_hold_nothing_after_all_leave_the_budget_to_others(
    admin: PulsarAdmin, names: Topics, docks: Callable[..., Dock]
) -> None:
    dock = docks(LaneSettings(prefetch=PrefetchSettings(budget_targets=40_000)))
    *idle, busy = [names.own_lane(f"task-{number}") for number in range(13)]
    for lane in (*idle, busy):
        admin.create_lane(lane)
    for lane in idle:
        dock.attach(lane)
    eventually(lambda: dock.lanes.attached() == 12, "all are attached")
    assert dock.lanes.queue(idle[0]) > dock.lanes.queue(idle[-1]) == 100
    for lane in idle:
        dock.attach(lane, prefetch=0)
    assert [dock.lanes.queue(lane) for lane in idle] == [100] * 12
    dock.attach(busy)
    assert dock.lanes.queue(busy) > 1_000


def test_stopping_lets_go_of_every_lane(tenant: Tenant, tmp_path: Path) -> None:
    dock = Dock(tenant.client)
    lanes = [tenant.names.own_lane(f"task-{number}") for number in range(10)]
    for lane in lanes:
        tenant.admin.create_lane(lane)
        dock.attach(lane)
    eventually(lambda: dock.lanes.attached() == 10, "all are attached")
    assert dock.lanes.stop(DEADLINE_S)
    assert dock.lanes.attached() == 0
    for lane in lanes:
        assert not tenant.admin.stats(lane)["subscriptions"]["dispatch"]["consumers"]


def test_an_envelope_arrives_as_it_was_published(client: pulsar.Client, lane: str, dock: Dock) -> None:
    sent = envelope(3, targets=500)
    publish(client, lane, [encode_envelope(sent)])
    dock.attach(lane, chunk=500)
    (delivery,) = dock.take(1)
    assert delivery.envelope == decode_envelope(encode_envelope(sent))
