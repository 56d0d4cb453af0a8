"""A worker's knowledge of the live tasks, apart from how it is read."""

from collections import Counter
from collections.abc import Iterable

from backends.redis.registry.task_rows import LiveTask
from dispatcher.model.tier import TIERS, Tier
from dispatcher.scheduling.division import DivisionSettings
from fairlane.worker.live_lanes import LiveLanes, LiveLaneSettings, Peer
from tests.unit.tasks import live_task

NULL = frozenset({"null"})


def lanes_of(
    me: str, peers: list[Peer], tasks: list[LiveTask], now_ms: int = 0, *, lanes_each: int | None = None
) -> LiveLanes:
    """Return the lanes of a worker with these peers and tasks; from 1 ms on the tasks are reported ones."""
    division = DivisionSettings() if lanes_each is None else DivisionSettings(lanes_each=lanes_each)
    lanes = LiveLanes(LiveLaneSettings(me=me, division=division))
    lanes.set_peers(peers, 0)
    lanes.put(tasks, now_ms, is_reported=now_ms > 0)
    return lanes


def held_by(lanes: LiveLanes, now_s: float = 0.0) -> set[str]:
    """Choose lanes, and return the tasks of those attached."""
    lanes.rotation.choose(now_s, rotate=False)
    while lanes.rotation.more:
        lanes.rotation.choose(now_s, rotate=False)
    return {lane.task for lane in lanes.attached()}


def holders_of(tasks: list[LiveTask], peers: list[Peer], lanes_each: int | None = None) -> dict[str, set[str]]:
    return {me.id: held_by(lanes_of(me.id, peers, tasks, lanes_each=lanes_each)) for me in peers}


def named(workers: Iterable[str]) -> list[Peer]:
    return [Peer(worker) for worker in workers]


def test_tasks_that_have_ended_leave_no_times_behind_at_which_to_look_at_them() -> None:
    """Every task has a timer for its expiry, which may be a week away."""
    tasks = [live_task(f"x{number}", expires_ms=10_000 + number) for number in range(5_000)]
    lanes = lanes_of("me", [Peer("me")], tasks)
    assert lanes.next_ms == 10_000
    lanes.drop(task.id for task in tasks[:-1])
    assert lanes.next_ms == 10_000 + 4_999


def test_lanes_of_a_channel_are_divided_among_the_workers_that_have_it() -> None:
    """One that does not say which it has may have all."""
    peers = [Peer("both", channels=frozenset({"http", "null"})), Peer("null-only", channels=NULL), Peer("silent")]
    tasks = [live_task(f"{channel}-{number}", channel=channel) for channel in ("http", "null") for number in range(50)]
    held = holders_of(tasks, peers)
    assert held["null-only"] == {f"null-{number}" for number in range(50)}
    assert held["both"] == held["silent"] == {task.id for task in tasks}

    held = holders_of(tasks, peers[:2], lanes_each=0)
    assert all(f"http-{number}" in held["both"] for number in range(50)), "the one worker that has it holds each lane"


def test_lanes_of_a_channel_that_no_worker_has_are_held_by_nobody_until_one_comes() -> None:
    without = [Peer("w0", channels=NULL), Peer("w1", channels=NULL)]
    task = live_task("x", channel="http")
    assert holders_of([task], without) == {"w0": set(), "w1": set()}

    lanes = lanes_of("w0", without, [task])
    assert lanes.set_peers([Peer("w0", channels=frozenset({"null", "http"})), without[1]], 1), "its channels are news"
    assert held_by(lanes) == {"x"}


def test_a_side_lane_is_held_by_workers_with_its_channel_and_by_any_while_there_are_none() -> None:
    lanes = lanes_of("me", [Peer("me", channels=NULL), Peer("other", channels=frozenset({"http"}))], [])
    assert not lanes.holds("side", Tier.LOW, "http")
    lanes.set_peers([Peer("me", channels=NULL)], 0)
    assert lanes.holds("side", Tier.LOW, "http")


def test_every_lane_is_held_by_two_and_by_others_when_one_of_them_goes() -> None:
    workers = [f"w{number}" for number in range(5)]
    tasks = [live_task(f"{tier}-x{number}", tier=tier) for tier in TIERS for number in range(200)]
    knowing = {me: lanes_of(me, named(workers), tasks, lanes_each=10) for me in workers}
    holders = Counter(task for lanes in knowing.values() for task in held_by(lanes))
    assert set(holders.values()) == {2}
    assert len(holders) == 600
    assert all({lane.tier for lane in lanes.attached()} == set(TIERS) for lanes in knowing.values())

    gone = knowing.pop("w0")
    for lanes in knowing.values():
        lanes.set_peers(named(knowing), 0)
        lanes.rotation.choose(1.0, rotate=False)
    after = Counter(lane.task for lanes in knowing.values() for lane in lanes.attached())
    assert after == holders
    assert len(gone.attached()) < 400


def test_a_lane_that_its_holders_leave_to_newer_workers_is_held_by_others() -> None:
    workers = [f"w{number}" for number in range(5)]
    task = live_task("x")

    def holders(leaving: set[str]) -> set[str]:
        peers = [Peer(worker, newer=(task.lane,) * (worker in leaving)) for worker in workers]
        found = set()
        for me in workers:
            lanes = lanes_of(me, named(workers), [task], lanes_each=0)
            assert lanes.set_peers(peers, 1) or not leaving
            found |= {me} if held_by(lanes) else set()
        return found

    first = holders(set())
    second = holders(first)
    assert len(first) == len(second) == 2
    assert not first & second
    assert holders(set(workers)) == first, "they look again, since nobody else is there"


def test_the_others_leave_a_small_new_task_to_its_first_holder_for_a_while() -> None:
    tasks = [live_task("small", expected=100), live_task("large", expected=100_000)]
    held: list[list[str]] = []
    for me in ("w0", "w1"):
        lanes = lanes_of(me, named(["w0", "w1"]), tasks, 1_000)
        held.append(sorted(held_by(lanes)))
        lanes.wake(3_000)
        assert held_by(lanes) == {"large", "small"}
    assert sorted(held) == [["large"], ["large", "small"]]
