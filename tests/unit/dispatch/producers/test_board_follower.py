"""Followers of the board: they hear what concerns them, and keep bounded memory however slow they are."""

from typing import Any

import pytest

from dispatcher.model.errors import NotReady
from producers.desk.board.follower import MAX_CHANGES, MAX_FOLLOWERS, Follower, Followers
from producers.desk.board.lists import Lists, Selection
from tests.unit.tasks import task_view


class Woken(Follower):
    """Counts how often it was woken."""

    def __init__(self, **only: Any) -> None:
        self.times = 0
        super().__init__(Selection(**only), self._count)

    def _count(self) -> None:
        self.times += 1

    def ids(self) -> list[str]:
        return [task.id for task in self.take().tasks]


@pytest.fixture
def followers() -> Followers:
    return Followers()


def test_follower_hears_what_its_selection_selects(followers: Followers) -> None:
    one, shop, high, news = Woken(id="a"), Woken(app="shop"), Woken(tier="high"), Woken(app="news")
    for follower in (one, shop, high, news):
        followers.add(follower)
    followers.put(None, task_view("a"))
    followers.put(None, task_view("b", tier="low"))
    assert [follower.ids() for follower in (one, shop, high, news)] == [["a"], ["a", "b"], ["a"], []]


def test_task_that_leaves_a_selection_is_heard_of_once_more(followers: Followers) -> None:
    running = Woken(state="running")
    followers.add(running)
    before, paused = task_view("a"), task_view("a", state="paused")
    followers.put(before, paused)
    assert running.take().tasks == [paused]
    followers.put(paused, task_view("a", state="cancelled", finished_ms=1))
    assert running.take().tasks == []


def test_slow_follower_gets_the_latest_state_of_each_task_and_is_woken_once() -> None:
    slow = Woken()
    for pending in range(1_000):
        slow.put(task_view("a", pending))
        slow.put(task_view("b", pending))
    assert slow.times == 1
    assert [task.targets.pending for task in slow.take().tasks] == [999, 999]
    slow.put(task_view("a"))
    assert slow.times == 2


def test_follower_that_misses_too_much_is_reset_and_goes_on() -> None:
    slow = Woken()
    for number in range(3 * MAX_CHANGES):
        slow.put(task_view(f"t{number}"))
    assert slow.take() == (True, [])
    slow.put(task_view("a"))
    assert slow.take() == (False, [task_view("a")])


def test_follower_of_a_forgotten_task_is_reset(followers: Followers) -> None:
    one, other = Woken(id="a"), Woken(id="b")
    followers.add(one)
    followers.add(other)
    followers.forget(task_view("a"))
    assert (one.take().is_reset, other.take().is_reset) == (True, False)


def test_followers_are_bounded_and_leave_room_when_they_go(followers: Followers) -> None:
    kept = [Woken(id=str(number)) for number in range(MAX_FOLLOWERS)]
    for follower in kept:
        followers.add(follower)
    with pytest.raises(NotReady, match="maximum"):
        followers.add(Woken())
    followers.remove(kept[0])
    followers.add(Woken())


def test_follower_that_left_hears_nothing(followers: Followers) -> None:
    gone = Woken(id="a")
    followers.add(gone)
    followers.remove(gone)
    followers.put(None, task_view("a"))
    assert gone.take() == (False, [])


def test_watched_tasks_are_bounded_and_the_single_ones_come_first(followers: Followers) -> None:
    tasks = [task_view(f"t{number}", rate=float(number)) for number in range(2 * MAX_CHANGES)]
    followers.add(Woken(app="shop"))
    followers.add(Woken(id="t0"))
    watched = list(followers.watched(Lists(tasks)))
    assert watched[:3] == ["t0", f"t{len(tasks) - 1}", f"t{len(tasks) - 2}"]
    assert len(watched) == MAX_CHANGES


def test_filters_take_turns(followers: Followers) -> None:
    tasks = [task_view(f"t{number}", app=f"app{number}") for number in range(40)]
    for task in tasks:
        followers.add(Woken(app=task.app))
    seen = {id_ for _ in range(4) for id_ in followers.watched(Lists(tasks))}
    assert seen == {task.id for task in tasks}
