"""What a worker knows of the live tasks, apart from how it came to know it."""

from dispatcher.tier import Tier
from fairlane.worker.live_lanes import LiveLanes, LiveLaneSettings, Peer
from tests.unit.tasks import live_task


def test_tasks_that_have_ended_leave_no_times_behind_at_which_to_look_at_them() -> None:
    """Of every task its end of life is waited for, and that may be a week away."""
    lanes = LiveLanes(LiveLaneSettings("me"))
    lanes.meet([Peer("me")], 0)
    tasks = [live_task(f"x{number}", expires_ms=10_000 + number) for number in range(5_000)]
    lanes.put(tasks, 0, told=False)
    assert lanes.next_ms == 10_000
    lanes.drop(task.id for task in tasks[:-1])
    assert lanes.next_ms == 10_000 + 4_999


def holders(peers: list[Peer], channel: str, **task: object) -> set[str]:
    """Return the workers that are attached to the lane of a task."""
    found = set()
    for me in (peer.id for peer in peers):
        lanes = LiveLanes(LiveLaneSettings(me))
        lanes.meet(peers, 0)
        lanes.put([live_task("t", channel=channel, **task)], 0, told=False)
        lanes.choose(0.0, rotate=False)
        if lanes.attached():
            found.add(me)
    return found


WITH, WITHOUT = frozenset({"null", "mail"}), frozenset({"null"})


def test_a_lane_is_held_only_by_workers_that_have_its_channel() -> None:
    peers = [Peer(f"w{number}", channels=WITH if number == 7 else WITHOUT) for number in range(10)]
    assert holders(peers, "mail") == {"w7"}
    assert holders(peers, "null") == {peer.id for peer in peers}
    assert holders(peers, "mail", total=10_000_000, published=10_000_000) == {"w7"}
    assert holders(peers, "pigeon") == set()


def test_a_worker_that_does_not_announce_its_channels_may_have_any() -> None:
    assert holders([Peer("old"), Peer("new", channels=WITHOUT)], "mail") == {"old"}


def test_a_lane_moves_when_a_worker_with_its_channel_comes_and_goes() -> None:
    lanes = LiveLanes(LiveLaneSettings("me"))
    lanes.put([live_task("t", channel="mail")], 0, told=False)

    def attached(*peers: Peer) -> int:
        news = lanes.meet([Peer("me", channels=WITHOUT), *peers], 0)
        lanes.choose(0.0, rotate=False)
        return len(lanes.attached()) if news else -1

    assert attached() == 0
    assert attached(Peer("other", channels=WITH)) == 0
    assert attached(Peer("other", channels=WITH)) == -1
    assert lanes.meet([Peer("me", channels=WITH)], 0)
    lanes.choose(0.0, rotate=False)
    assert len(lanes.attached()) == 1


def test_a_side_lane_is_held_by_a_worker_that_has_its_channel() -> None:
    lanes = LiveLanes(LiveLaneSettings("me"))
    lanes.meet([Peer("me", channels=WITHOUT), Peer("other", channels=WITH)], 0)
    assert not lanes.holds("side.shop~mail", Tier.LOW, "mail")
    assert lanes.holds("side.shop~null", Tier.LOW, "null")
