"""Lists of the board: filters, orders and cursors over tasks in memory."""

import gc
import math
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.analysis.failing import INCOMPLETE, STUCK, shown_state
from dispatcher.analysis.send_errors import SendError
from dispatcher.model.errors import InvalidInput
from dispatcher.model.flow_pause import ended
from dispatcher.model.view import Globals, TaskView
from producers.desk.board.lists import SORTS, Lists, Selection, Sort
from producers.desk.scoped_ids import ScopedIds
from tests.unit.tasks import task_view

IDS = st.sampled_from([f"{app}{number}" for app in ("", "shop--", "news--") for number in range(12)])
SORT_TEXTS = [sign + name for sign in ("", "-") for name in SORTS]


@st.composite
def boards(draw: st.DrawFn) -> tuple[list[TaskView], dict[str, float]]:
    """Tasks of few values, so that many are alike, and the ends of some of them."""
    tasks = [
        task_view(
            id_,
            pending=draw(st.integers(0, 2)),
            app=draw(st.sampled_from(["shop", "news"])),
            tier=draw(st.sampled_from(["high", "low"])),
            state=draw(st.sampled_from(["running", "paused"])),
            created_ms=draw(st.integers(1, 3)),
            rate=draw(st.sampled_from([0.0, 0.5, 7.0])),
        )
        for id_ in draw(st.sets(IDS, max_size=30))
    ]
    etas = {task.id: draw(st.sampled_from([0.0, 1.5, 60.0])) for task in tasks if draw(st.booleans())}
    return tasks, etas


@st.composite
def selections(draw: st.DrawFn) -> Selection:
    """Any filters."""
    maybe = {
        "app": ["shop", "news"], "tier": ["high", "low"], "state": ["running", "paused", "scheduled"],
        "id_prefix": ["", "1", "~", "shop--1"], "q": ["", "1", "op--", "~"],
    }  # fmt: skip
    fields: dict[str, Any] = {name: draw(st.sampled_from([None, *values])) for name, values in maybe.items()}
    return Selection(**fields, ids=ScopedIds(draw(st.sampled_from(["", "shop"]))))


def pages(lists: Lists, selection: Selection, sort: Sort, limit: int) -> list[list[TaskView]]:
    """All pages, one after the other."""
    found, cursor = [], None
    while True:
        tasks, cursor = lists.page(selection, sort, limit, cursor)
        found.append(tasks)
        if cursor is None:
            return found


def naive(task: TaskView, selection: Selection) -> bool:
    """The filter, field by field."""
    shown = selection.ids.shown(task.id)
    alike = all(getattr(selection, name) in (None, getattr(task, name)) for name in ("app", "tier", "state"))
    part = selection.q or ""
    return (
        alike
        and shown.startswith(selection.id_prefix or "")
        and (part in shown or (not selection.app and part in task.app))
    )


def value(task: TaskView, by: str, etas: dict[str, float]) -> Any:
    values = {"created": task.created_ms, "rate": task.rate, "pending": task.targets.pending, "id": task.id}
    return etas.get(task.id, math.inf) if by == "eta" else values[by]


def test_garbage_collector_looks_at_no_task() -> None:
    """A collection stops all threads. With 100,000 tasks in memory it took 0.2 s and more."""
    task = task_view("a", last_error=SendError("gone", 1, 2, 3, 4))
    assert not any(map(gc.is_tracked, (task, task.targets, task.last_error)))


@given(boards(), selections(), st.sampled_from(SORT_TEXTS), st.integers(1, 7))
def test_pages_show_each_selected_task_once_in_the_order(
    board: tuple[list[TaskView], dict[str, float]], selection: Selection, text: str, limit: int
) -> None:
    tasks, etas = board
    sort = Sort.parse(text)
    found = pages(Lists(tasks, etas), selection, sort, limit)
    expected = sorted(
        (task for task in tasks if naive(task, selection)),
        key=lambda task: (value(task, sort.by, etas), task.id),
        reverse=sort.descending,
    )
    assert [task.id for page in found for task in page] == [task.id for task in expected]
    assert all(len(page) == limit for page in found[:-1])


@given(boards(), st.sampled_from(SORT_TEXTS), st.data())
def test_cursor_works_on_a_board_without_its_task(
    board: tuple[list[TaskView], dict[str, float]], text: str, data: st.DataObject
) -> None:
    tasks, etas = board
    sort, selection = Sort.parse(text), Selection()
    first, cursor = Lists(tasks, etas).page(selection, sort, 2)
    gone = first[-1:] if cursor is not None and data.draw(st.booleans()) else []
    others = Lists([task for task in tasks if task not in gone], etas)
    rest = [task for page in pages_after(others, selection, sort, cursor) for task in page]
    assert sorted(task.id for task in first + rest) == sorted(task.id for task in tasks)


def pages_after(lists: Lists, selection: Selection, sort: Sort, cursor: str | None) -> list[list[TaskView]]:
    found = []
    while cursor is not None:
        tasks, cursor = lists.page(selection, sort, 3, cursor)
        found.append(tasks)
    return found


@given(boards(), st.sampled_from(["", "shop", "news"]))
def test_counts_are_those_of_the_tasks_of_the_app(board: tuple[list[TaskView], dict[str, float]], app: str) -> None:
    own = [task for task in board[0] if app in ("", task.app)]
    counts = Lists(board[0]).counts(app)
    for name, by_value in counts.items():
        values = [getattr(task, name) for task in own]
        assert by_value == {each: values.count(each) for each in set(values)}
    assert Lists(board[0]).size(app) == len(own)


@given(boards(), selections(), st.booleans())
def test_tasks_are_counted_by_the_state_in_which_their_pages_show_them(
    board: tuple[list[TaskView], dict[str, float]], selection: Selection, is_paused: bool
) -> None:
    (tasks, etas), of_any = board, replace(selection, state=None)
    settings = Globals(capacity=0, tier_weights={}, flow_pauses={"null/shop": ended(1, "")} if is_paused else {})
    lists, expected = Lists(tasks, etas, 0, settings), dict[str, set[str]]()
    for task in filter(lambda task: naive(task, of_any), tasks):
        state = shown_state(task, etas.get(task.id), 0, settings)
        expected.setdefault(state, set()).add(task.id)
    assert lists.facets(of_any)["state"] == {state: len(ids) for state, ids in expected.items()}
    for state in ("running", "paused", "scheduled", STUCK, INCOMPLETE):
        chosen = replace(of_any, shown=state)
        found = [task for page in pages(lists, chosen, Sort(), 3) for task in page]
        assert {task.id for task in found} == expected.get(state, set())
        assert len(found) == sum(lists.facets(chosen)["tier"].values()) if of_any.tier is None else True


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, STUCK),
        ({"rate": 1.0}, "running"),
        ({"pending": 0, "sealed": False}, INCOMPLETE),
        ({"sealed": False, "hold_until_sealed": True}, INCOMPLETE),
        ({"app": "paused"}, "paused"),
        ({"app": "paused", "pending": 0, "sealed": False}, INCOMPLETE),
        ({"channel": "paused"}, "paused"),
        ({"state": "scheduled", "app": "paused"}, "scheduled"),
    ],
)
def test_state_of_a_running_task_says_why_it_is_not_sent(fields: dict[str, Any], state: str) -> None:
    settings = Globals(
        capacity=0, tier_weights={}, paused_channels=frozenset({"paused"}), flow_pauses={"null/paused": ended(1, "")}
    )
    assert shown_state(task_view("a", **{"pending": 1} | fields), None, 0, settings) == state


@pytest.mark.parametrize("sort", SORT_TEXTS)
@pytest.mark.parametrize(
    "cursor",
    ["", "x", "zz", "00", "1:2", b"[]".hex(), b'["-created"]'.hex(), b'["eta",NaN,"a"]'.hex(), b'["id",1,"a"]'.hex(),
     b'["created","a","a"]'.hex(), b'["pending",true,"a"]'.hex(), b"\xff\xfe".hex(), (b"[" * 9_000).hex()],
)  # fmt: skip
def test_nonsense_as_a_cursor_is_refused(sort: str, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        Lists([task_view("a")]).page(Selection(), Sort.parse(sort), 1, cursor)


def test_cursor_of_another_order_is_refused() -> None:
    lists = Lists([task_view("a"), task_view("b")])
    _, cursor = lists.page(Selection(), Sort.parse("-rate"), 1)
    with pytest.raises(InvalidInput, match="order rate"):
        lists.page(Selection(), Sort.parse("rate"), 1, cursor)


@pytest.mark.parametrize("text", ["", "-", "--id", "weight", "ID", "id,eta"])
def test_unknown_order_is_refused_and_the_known_ones_named(text: str) -> None:
    with pytest.raises(InvalidInput, match="created, eta, rate, pending, id"):
        Sort.parse(text)


def test_tasks_without_an_estimate_come_after_all_others() -> None:
    tasks = [task_view(id_) for id_ in "abc"]
    found, _ = Lists(tasks, {"b": 5.0}).page(Selection(), Sort.parse("eta"), 10)
    assert [task.id for task in found] == ["b", "a", "c"]


def test_id_is_looked_for_as_the_key_sees_it() -> None:
    tasks = [msgspec.structs.replace(task_view(id_), app="shop") for id_ in ("shop--sale", "shop-x", "sale")]
    ids = ScopedIds("shop")
    assert [task.id for task in Selection(app="shop", q="shop", ids=ids).among(tasks)] == ["shop-x"]
    assert [task.id for task in Selection(id_prefix="sa", ids=ids).among(tasks)] == ["shop--sale"]
    assert [task.id for task in Selection(id_prefix="~", ids=ids).among(tasks)] == ["shop-x", "sale"]


def test_lists_are_made_with_what_the_first_pages_of_the_console_need() -> None:
    lists = Lists([task_view("a"), task_view("b")])
    while lists.prepare(Lists().used):
        pass
    made = vars(lists)
    assert {"_groups", "_shown_counts"} <= made.keys()
    assert "eta" in made["_orders"]
