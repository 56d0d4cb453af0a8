"""What a worker knows of the live tasks, apart from how it came to know it."""

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
