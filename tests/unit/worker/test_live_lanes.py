"""A worker's knowledge of the live tasks, apart from how it is read."""

from backends.redis.task_rows import LiveTask
from dispatcher.model.tier import Tier
from dispatcher.scheduling.division import DivisionSettings
from fairlane.worker.live_lanes import LiveLanes, LiveLaneSettings, Peer
from tests.unit.tasks import live_task

NULL = frozenset({"null"})


def test_tasks_that_have_ended_leave_no_times_behind_at_which_to_look_at_them() -> None:
    """Every task has a timer for its expiry, which may be a week away."""
    lanes = LiveLanes(LiveLaneSettings("me"))
    lanes.meet([Peer("me")], 0)
    tasks = [live_task(f"x{number}", expires_ms=10_000 + number) for number in range(5_000)]
    lanes.put(tasks, 0, is_reported=False)
    assert lanes.next_ms == 10_000
    lanes.drop(task.id for task in tasks[:-1])
    assert lanes.next_ms == 10_000 + 4_999


def test_lanes_of_a_channel_are_divided_among_the_workers_that_have_it() -> None:
    """One that does not say which it has, as 0.2.0 does not, may have all."""
    peers = [
        Peer("both", channels=frozenset({"http", "null"})),
        Peer("null-only", channels=NULL),
        Peer("old"),
    ]
    tasks = [live_task(f"{channel}-{number}", channel=channel) for channel in ("http", "null") for number in range(50)]
    held = holders_of(tasks, peers)
    assert held["null-only"] == {f"null-{number}" for number in range(50)}
    assert held["both"] == held["old"] == {task.id for task in tasks}

    held = holders_of(tasks, peers[:2], DivisionSettings(lanes_each=0))
    assert all(f"http-{number}" in held["both"] for number in range(50)), "the one worker that has it holds each lane"


def test_lanes_of_a_channel_that_no_worker_has_are_held_by_nobody_until_one_comes() -> None:
    without = [Peer("w0", channels=NULL), Peer("w1", channels=NULL)]
    task = live_task("x", channel="http")
    assert holders_of([task], without) == {"w0": set(), "w1": set()}

    lanes = LiveLanes(LiveLaneSettings("w0"))
    lanes.meet(without, 0)
    lanes.put([task], 0, is_reported=False)
    assert lanes.meet([Peer("w0", channels=frozenset({"null", "http"})), without[1]], 1), "its channels are news"
    lanes.rotation.choose(0.0, rotate=False)
    assert [lane.task for lane in lanes.attached()] == ["x"]


def test_a_side_lane_is_held_by_workers_with_its_channel_and_by_any_while_there_are_none() -> None:
    lanes = LiveLanes(LiveLaneSettings("me"))
    lanes.meet([Peer("me", channels=NULL), Peer("other", channels=frozenset({"http"}))], 0)
    assert not lanes.holds("side", Tier.LOW, "http")
    lanes.meet([Peer("me", channels=NULL)], 0)
    assert lanes.holds("side", Tier.LOW, "http")


def holders_of(
    tasks: list[LiveTask], peers: list[Peer], division: DivisionSettings | None = None
) -> dict[str, set[str]]:
    """The tasks whose lanes each worker holds."""
    held = {}
    for me in peers:
        lanes = LiveLanes(LiveLaneSettings(me.id, division=division or DivisionSettings()))
        lanes.meet(peers, 0)
        lanes.put(tasks, 0, is_reported=False)
        lanes.rotation.choose(0.0, rotate=False)
        while lanes.rotation.more:
            lanes.rotation.choose(0.0, rotate=False)
        held[me.id] = {lane.task for lane in lanes.attached()}
    return held
