"""The board over a real Redis: it holds the live tasks, whatever happens to the view."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView
from backends.settings import RedisSettings
from backends.system_clock import SystemClock
from benchmarks.redis_server import running
from dispatcher.model.errors import NotReady
from dispatcher.wire.control import Finished
from producers.desk.board.board import Board
from producers.desk.board.follower import Follower
from producers.desk.board.lists import Selection, Sort
from tests.contract.conftest import view_at
from tests.contract.registry_records import change, placed, position, ready, sealed, task_record
from tests.integration.worker_crew import eventually

NEWEST = Sort()


@pytest.fixture
def opened() -> Iterator[Callable[[str], Board]]:
    boards: list[Board] = []

    def open_board(url: str) -> Board:
        board = Board.open(RedisSettings(url=url, prefix="test"), SystemClock())
        boards.append(board)
        board.start()
        return board

    yield open_board
    for board in boards:
        board.close()


@pytest.fixture
def registry(server_view: RedisView) -> Registry:
    ready(server_view)
    return Registry(server_view)


def add(registry: Registry, *tasks: str, first: int = 1, **fields: Any) -> None:
    registry.control.apply_all(placed(*(task_record(task, **fields) for task in tasks), first=first))


def ids(board: Board, sort: str = "id", **only: Any) -> list[str]:
    return [task.id for task in board.page(Selection(**only), Sort.parse(sort), 500)[0]]


def is_complete(board: Board) -> bool:
    with suppress(NotReady):
        return board.age().complete
    return False


def is_soon(board: Board, *tasks: str, **only: Any) -> None:
    eventually(lambda: ids(board, **only) == list(tasks), 10, f"the board shows {tasks}")


class Heard(Follower):
    """A follower that keeps what it heard."""

    def __init__(self, **only: Any) -> None:
        super().__init__(Selection(**only), lambda: None)
        self.states: list[tuple[str, str, bool]] = []
        self.resets = 0

    def has(self, *state: object) -> bool:
        changes = self.take()
        self.resets += changes.is_reset
        self.states += [(task.id, task.state, task.ended) for task in changes.tasks]
        return state in self.states


def finished(task: str) -> Finished:
    return Finished(format=1, task=task, state="completed", at_ms=1_700_000_009_000, counts=[0] * 5)


def test_board_begins_with_all_live_tasks(registry: Registry, server_url: str, opened: Callable[[str], Board]) -> None:
    many = [f"t{number:04}" for number in range(450)]
    add(registry, *many)
    board = opened(server_url)
    eventually(lambda: is_complete(board), 10, "all tasks are read")
    assert ids(board) == many
    assert board.counts()["app"] == {"shop": 450}


def test_new_changed_and_ended_tasks_are_seen(
    registry: Registry, server_url: str, opened: Callable[[str], Board]
) -> None:
    board = opened(server_url)
    add(registry, "a", "b")
    is_soon(board, "a", "b")
    registry.control.apply(position(3), change("a", "paused", "1"))
    is_soon(board, "a", state="paused")
    registry.control.apply_all([(position(4), sealed("a", 0)), (position(5), finished("a"))])
    is_soon(board, "b")


def test_page_shows_rows_as_they_are_now(
    registry: Registry, server_url: str, server_view: RedisView, opened: Callable[[str], Board]
) -> None:
    add(registry, "a")
    board = opened(server_url)
    is_soon(board, "a")
    server_view.command("HSET", server_view.keys.task("a"), "published", 70)  # as by a fold: the feed does not say it

    def pending() -> int:
        (row,) = board.page(Selection(), NEWEST, 10)[0]
        return row.targets.pending

    eventually(lambda: pending() == 70, 3, "a page shows the present count")


def test_counts_are_read_again_without_the_feed(
    registry: Registry, server_url: str, server_view: RedisView, opened: Callable[[str], Board]
) -> None:
    add(registry, "a", "b")
    board = opened(server_url)
    is_soon(board, "a", "b")
    server_view.command("HSET", server_view.keys.task("a"), "published", 70)
    eventually(lambda: ids(board, "-pending") == ["a", "b"], 40, "the order follows the counts")


def test_follower_hears_the_present_state_the_changes_and_the_end(
    registry: Registry, server_url: str, opened: Callable[[str], Board]
) -> None:
    add(registry, "a", "b")
    board = opened(server_url)
    is_soon(board, "a", "b")
    heard = Heard(id="a")
    board.follow(heard)
    assert heard.has("a", "running", False)
    registry.control.apply(position(3), change("a", "paused", "1"))
    eventually(lambda: heard.has("a", "paused", False), 10, "the pause is heard of")
    registry.control.apply_all([(position(4), sealed("a", 0)), (position(5), finished("a"))])
    eventually(lambda: heard.has("a", "completed", True), 10, "the end is heard of")
    assert {id_ for id_, _, _ in heard.states} == {"a"}


def test_follower_hears_of_counts_that_no_record_announces(
    registry: Registry, server_url: str, server_view: RedisView, opened: Callable[[str], Board]
) -> None:
    add(registry, "a", "b")
    board = opened(server_url)
    is_soon(board, "a", "b")
    heard = Heard(app="shop")
    board.follow(heard)
    heard.take()
    server_view.command("HSET", server_view.keys.task("b"), "published", 70)
    eventually(lambda: [task.targets.pending for task in heard.take().tasks] == [70], 10, "the count is heard of")


def test_present_states_are_those_of_the_tasks_that_are_selected(
    registry: Registry, server_url: str, opened: Callable[[str], Board]
) -> None:
    add(registry, "a", "b")
    registry.control.apply(position(3), change("a", "paused", "1"))
    board = opened(server_url)
    is_soon(board, "a", state="paused")
    for only, expected in (({"state": "paused"}, ["a"]), ({"id": "b"}, ["b"]), ({"id": "b", "app": "news"}, [])):
        assert [task.id for task in board.present(Selection(**only))] == expected  # type: ignore[arg-type]
    assert board.present(Selection(id="nowhere")) == []


def test_task_that_ended_before_it_was_followed_is_heard_of(
    registry: Registry, server_url: str, opened: Callable[[str], Board]
) -> None:
    add(registry, "a")
    registry.control.apply_all([(position(4), sealed("a", 0)), (position(5), finished("a"))])
    board, heard = opened(server_url), Heard(id="a")
    board.follow(heard)
    eventually(lambda: heard.has("a", "completed", True), 10, "the end is heard of")


def test_task_starts_and_expires_by_the_clock(
    registry: Registry, server_url: str, server_view: RedisView, opened: Callable[[str], Board]
) -> None:
    now_ms = server_view.now_ms()
    add(registry, "a", start_ms=now_ms + 2_500)
    add(registry, "b", first=2, expires_ms=now_ms + 2_500)
    board = opened(server_url)
    is_soon(board, "a", state="scheduled")
    is_soon(board, "a", state="running")
    is_soon(board, "b", state="expired")


def test_board_of_a_view_that_is_being_rebuilt_says_that_nothing_is_known(
    server_view: RedisView, server_url: str, opened: Callable[[str], Board]
) -> None:
    add(Registry(server_view), "a")  # applied by a fold, and the view is not complete yet
    board = opened(server_url)
    with pytest.raises(NotReady, match="No task was read"):
        board.page(Selection(), NEWEST, 10)
    ready(server_view)
    eventually(lambda: is_complete(board), 10, "all tasks are read")
    assert ids(board) == ["a"]


def test_figures_stay_with_their_age_while_the_view_is_rebuilt(
    registry: Registry, server_url: str, server_view: RedisView, opened: Callable[[str], Board]
) -> None:
    add(registry, "a", "b")
    board, heard = opened(server_url), Heard(id="b")
    is_soon(board, "a", "b")
    board.follow(heard)
    server_view.wipe()
    eventually(lambda: board.age().age_s > 2, 10, "the board grows old")
    assert ids(board) == ["a", "b"]
    add(registry, "a")  # the fold comes this far, and the view is still not complete
    eventually(lambda: board.age().age_s > 3, 10, "the board grows old")
    assert ids(board) == ["a", "b"]
    server_view.command("HSET", server_view.keys.epoch, "id", "e2", "ready", "1", "grants_after_ms", "0")
    is_soon(board, "a")
    eventually(lambda: is_complete(board), 10, "all tasks are read")
    eventually(lambda: heard.has() or heard.resets, 10, "who follows the lost task is told")
    add(registry, "c", first=9)
    is_soon(board, "a", "c")


def test_figures_stay_with_their_age_while_redis_is_gone(opened: Callable[[str], Board]) -> None:
    with running() as server:
        view = view_at(server.url)
        ready(view)
        add(Registry(view), "a", "b")
        board = opened(server.url)
        is_soon(board, "a", "b")
        server.kill()
        eventually(lambda: board.age().age_s > 2, 20, "the board grows old")
        assert ids(board) == ["a", "b"]
        assert board.age().complete
        with running(port=server.port):
            view = view_at(server.url)
            ready(view)
            view.command("HSET", view.keys.epoch, "id", "e2")
            add(Registry(view), "b", "c")
            is_soon(board, "b", "c")
            eventually(lambda: board.age().age_s < 1, 20, "the board is fresh again")
