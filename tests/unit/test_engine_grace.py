"""The grace of a worker whose ledger is gone: what it goes on sending, and what not."""

from collections import Counter

import pytest

from dispatcher.events import LanesChanged
from dispatcher.lease import LaneKind
from dispatcher.outcome import RETRY, Report, Verdict
from dispatcher.tier import Tier
from tests.unit.engine_world import MESSAGE, Worker, World

CAPACITY = 1_000


def crowd(world: World, count: int, grace_s: float = 30.0) -> list[Worker]:
    return [world.worker(grace_s=grace_s) for _ in range(count)]


def hold_only(world: World, worker: Worker, lane: str) -> None:
    while not worker.inbox.empty():
        worker.inbox.get()
    worker.inbox.put(LanesChanged([world.lanes[lane]]))


def lost(world: World, after_s: float = 8.0, until_s: float = 3.0) -> None:
    """The ledger goes after a while, and every lease of it has ended."""
    world.run(within_s=after_s)
    world.lose_ledger()
    world.run(within_s=until_s)


def sent_within(world: World, seconds: float) -> Counter[str]:
    """Targets by task, in so many seconds from now."""
    before = len(world.provider_calls)
    world.run(within_s=seconds)
    counts: Counter[str] = Counter()
    for envelope in world.provider_calls[before:]:
        counts[envelope.task] += len(envelope.targets)
    return counts


@pytest.mark.parametrize("workers", [1, 3])
def test_all_workers_together_go_on_at_no_more_than_the_capacity(workers: int) -> None:
    world = World(capacity=CAPACITY)
    crowd(world, workers)
    world.add_task("t", 60_000, chunk=10)
    lost(world)
    for _ in range(10):
        sent = sent_within(world, 1.0).total()
        assert 0.8 * CAPACITY <= sent <= 1.05 * CAPACITY


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("ago_s", [0.1, 2.0])
@pytest.mark.parametrize("field", ["capacity", "cap:channel:null"])
def test_a_cap_lowered_or_set_shortly_before_is_not_exceeded(field: str, ago_s: float, workers: int) -> None:
    """Each worker alone would be within it, with what it was granted under the cap before."""
    world = World(capacity=12 * CAPACITY)
    for number, worker in enumerate(crowd(world, workers)):
        lane = world.add_task(f"t{number}", 60_000, chunk=10, publish=False)
        hold_only(world, worker, lane)
        world.publish(f"t{number}", lane, 60_000, chunk=10)
    world.run(within_s=3.0)
    world.set_global(field, str(CAPACITY))
    lost(world, after_s=ago_s)
    for _ in range(5):
        assert sent_within(world, 1.0).total() <= 1.05 * CAPACITY


def test_the_shares_stay_as_they_were() -> None:
    world = World(capacity=CAPACITY)
    crowd(world, 1)
    for tier in Tier:
        world.add_task(str(tier), 60_000, chunk=5, tier=tier)
    lost(world)
    sent = sent_within(world, 10.0)
    for tier, share in zip(Tier, (0.6, 0.3, 0.1), strict=True):
        assert sent[str(tier)] / sent.total() == pytest.approx(share, abs=0.02)


def test_a_grace_of_nothing_sends_nothing() -> None:
    world = World(capacity=CAPACITY)
    crowd(world, 1, grace_s=0.0)
    world.add_task("t", 60_000, chunk=10)
    lost(world)
    assert not sent_within(world, 10.0)


def test_after_the_grace_everything_waits_and_then_goes_on_by_itself() -> None:
    world = World(capacity=CAPACITY)
    (worker,) = crowd(world, 1, grace_s=5.0)
    world.add_task("t", 20_000, chunk=10)
    lost(world)
    assert worker.engine.stats.in_grace == 1
    world.run(within_s=5.0)
    assert worker.engine.stats.in_grace == 0
    assert not sent_within(world, 10.0)
    world.find_ledger()
    world.run(lambda: world.finished("t") and world.settled())
    assert world.counts("t") == {"sent": 20_000}
    assert set(world.calls().values()) == {1}


def test_what_was_sent_in_the_grace_is_folded_and_not_sent_again() -> None:
    world = World(capacity=CAPACITY)
    workers = crowd(world, 2)
    world.add_task("t", 25_000, chunk=10)
    lost(world)
    assert sent_within(world, 5.0).total() > 0
    world.find_ledger()
    world.run(lambda: world.finished("t") and world.settled())
    assert world.counts("t") == {"sent": 25_000}
    assert set(world.calls().values()) == {1}
    assert sum(worker.engine.stats.grace_targets for worker in workers) > 0
    assert not any(worker.engine.stats.in_grace for worker in workers)


def test_a_call_that_was_carried_out_though_its_answer_was_lost_costs_nothing() -> None:
    world = World(capacity=CAPACITY)
    (worker,) = crowd(world, 1)
    world.add_task("t", 20_000, chunk=10)
    world.run(within_s=6.0)
    worker.leases.lose = 1_000_000
    world.run(within_s=6.0)
    assert worker.engine.stats.grace_targets > 0
    worker.leases.lose = 0
    world.run(lambda: world.finished("t") and world.settled())
    assert world.counts("t") == {"sent": 20_000}
    assert set(world.calls().values()) == {1}


@pytest.mark.parametrize(("field", "value"), [("paused", "1"), ("cancelled", "1"), ("cap", "10")])
def test_controls_written_while_the_ledger_is_gone_are_followed(field: str, value: str) -> None:
    world = World(capacity=CAPACITY)
    crowd(world, 2)
    world.add_task("stopped", 60_000, chunk=10)
    world.add_task("other", 60_000, chunk=10)
    lost(world)
    world.change("stopped", field, value)
    world.run(within_s=0.5)
    sent = sent_within(world, 5.0)
    assert sent["stopped"] == 0
    assert sent["other"] >= 0.8 * 5 * CAPACITY  # what the one may not have the other takes


def test_a_paused_channel_and_a_lower_capacity_are_followed() -> None:
    world = World(capacity=CAPACITY)
    crowd(world, 2)
    world.add_task("a", 60_000, chunk=10, channel="null")
    world.add_task("b", 60_000, chunk=10, channel="other")
    lost(world)
    world.set_global("channel_paused:other", "1")
    world.set_global("capacity", str(CAPACITY // 4))
    world.run(within_s=0.5)
    sent = sent_within(world, 8.0)
    assert sent["b"] == 0
    assert 0.8 * 2 * CAPACITY <= sent["a"] <= 1.05 * 2 * CAPACITY


def test_an_expired_task_is_not_sent() -> None:
    world = World(capacity=CAPACITY)
    crowd(world, 1)
    world.add_task("t", 60_000, chunk=10, expires_in_s=14)
    lost(world)
    assert sent_within(world, 2.5)
    world.run(within_s=1.0)
    assert not sent_within(world, 3.0)


def test_weights_and_edits_written_meanwhile_count() -> None:
    world = World(capacity=CAPACITY)
    crowd(world, 1)
    world.add_task("a", 60_000, chunk=5)
    world.add_task("b", 60_000, chunk=5)
    lost(world)
    world.change("a", "weight", "3000")
    world.change("a", "override", '1:{"title":"better"}')
    world.run(within_s=1.0)
    before = len(world.provider_calls)
    sent = sent_within(world, 8.0)
    assert sent["a"] / sent["b"] == pytest.approx(3.0, rel=0.1)
    messages = {bytes(e.message) for e in world.provider_calls[before:] if e.task == "a"}
    assert len(messages) == 1
    assert messages != {bytes(MESSAGE)}


def test_only_first_deliveries_of_first_attempts_are_sent() -> None:
    refused: list[str] = []

    def script(envelope: object) -> Report:
        name = envelope.targets[0]  # type: ignore[attr-defined]
        if name.endswith("7") and name not in refused and envelope.attempt == 0:  # type: ignore[attr-defined]
            refused.append(name)
            return Report(Verdict(RETRY))
        return Report()

    world = World(script, capacity=CAPACITY)
    crowd(world, 1)
    lane = world.add_task("t", 30_000)
    lost(world, after_s=6.0)
    world.broker.take_away(lane, 500)  # delivered once before
    world.broker.repeat(lane, 100)  # copies of what was sent long ago are behind everything else
    before = len(world.provider_calls)
    assert sent_within(world, 6.0)["t"] > 0
    meanwhile = world.provider_calls[before:]
    assert {envelope.attempt for envelope in meanwhile} == {0}
    assert len({(e.writer, e.sequence) for e in meanwhile}) == len(meanwhile)


def test_a_task_nobody_told_of_is_not_sent() -> None:
    world = World(capacity=CAPACITY)
    crowd(world, 1)
    world.add_task("known", 60_000, chunk=10)
    lane = world.add_task("unknown", 100, chunk=10, known=False, publish=False)
    lost(world)
    world.publish("unknown", lane, 100, chunk=10)
    sent = sent_within(world, 5.0)
    assert sent["unknown"] == 0
    assert sent["known"] > 0


def test_nothing_is_sent_while_the_control_topic_cannot_be_read() -> None:
    world = World(capacity=CAPACITY)
    (worker,) = crowd(world, 1)
    world.add_task("t", 60_000, chunk=10)
    world.run(within_s=8.0)
    worker.controls.stuck = True
    world.lose_ledger()
    world.run(within_s=3.0)
    assert not sent_within(world, 3.0)
    worker.controls.stuck = False
    assert sent_within(world, 3.0)


def test_an_envelope_whose_task_left_the_shared_lane_stays_there() -> None:
    world = World(capacity=CAPACITY)
    crowd(world, 1)
    lane = world.add_task("a", 30_000, chunk=5, tier=Tier.LOW, shared=True)
    world.add_task("b", 30_000, chunk=5, tier=Tier.LOW, shared=True)
    assert world.lanes[lane].kind == LaneKind.SHARED
    lost(world, after_s=5.0)
    world.change("b", "lane", world.topics.own_lane("b"))
    world.run(within_s=1.0)
    assert sent_within(world, 3.0)["b"] == 0
