"""Lists and events at the desk: clipped to the principal's app, in its ids."""

import gc
import sys
from contextlib import nullcontext

import pytest
from msgspec.structs import replace

from dispatcher.analysis.send_errors import SendError
from dispatcher.analysis.situation import Outlook
from dispatcher.model.errors import FairlaneError, InvalidInput, NotFound, Unreachable
from producers.control.foresight import Foresight
from producers.desk.board.lists import Selection
from producers.desk.scoped_ids import ScopedIds
from tests.unit.dispatch.desk.desk_world import DeskWorld, new_task


@pytest.fixture
def tenants(world: DeskWorld) -> DeskWorld:
    for app in ("shop", "news"):
        world.desks(app).tasks.submit(new_task(id="own"), ["a", "b"])
    world.submit("plain", "shop")
    world.submit("theirs", "news")
    world.board.read()
    return world


def test_one_task_is_followed_by_the_id_of_the_key(tenants: DeskWorld) -> None:
    desk = tenants.desks().board
    assert desk.one("own") == Selection(id="shop--own", app="shop")
    assert desk.one("~plain") == Selection(id="plain", app="shop")
    assert tenants.operator().board.one("theirs") == Selection(id="theirs")


def test_task_of_another_app_cannot_be_followed_and_is_as_one_that_never_was(tenants: DeskWorld) -> None:
    for id_ in ("nowhere", "~theirs", "~news--own", "theirs", "~", "", "a/b", "\udc80"):
        with pytest.raises(NotFound) as refused:
            tenants.desks().board.one(id_)
        assert refused.value.cause == f"There is no task {id_}."


def test_task_that_the_board_has_is_followed_and_shown_while_redis_is_gone(tenants: DeskWorld) -> None:
    tenants.service.redis.gone = True
    assert tenants.desks().board.one("own").id == "shop--own"
    view, message, age_s = tenants.desks().tasks.task_and_message("own")
    assert (view.id, view.targets.total, message, age_s) == ("own", 2, {}, 7.0)
    for id_ in ("~theirs", "~news--own", "nowhere"):
        with pytest.raises(Unreachable):
            tenants.desks().tasks.task_and_message(id_)


def test_task_that_is_newer_than_the_forecast_has_the_end_of_its_own_rate_or_none(tenants: DeskWorld) -> None:
    now_ms = tenants.service.clock.wall_ms()
    [task] = [each for each in tenants.board.live() if each.id == "plain"]
    failing = replace(task, last_error=SendError("", 0, 0, 0, now_ms + 9_000, 2, now_ms, "Failed to connect"))
    sent = replace(failing, rate=0.5)
    assert [tenants.board.foreseen(each).eta_s for each in (task, failing, sent)] == [None, None, 4.0]
    tenants.board.foresee(9.0)
    assert [tenants.board.foreseen(each).eta_s for each in (task, failing, sent)] == [9.0, None, 9.0]


@pytest.mark.parametrize("fails", [False, True])
def test_forecast_lets_other_threads_run_often_and_collects_no_garbage(
    tenants: DeskWorld, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    usual, meanwhile = (sys.getswitchinterval(), gc.isenabled()), list[tuple[float, bool]]()

    def estimate(_: object) -> Outlook:
        meanwhile.append((sys.getswitchinterval(), gc.isenabled()))
        if fails:
            raise Unreachable("Redis does not answer.")
        return Outlook({"plain": 9.0})

    monkeypatch.setattr(Foresight, "estimate", lambda _, live: estimate(live))
    with pytest.raises(Unreachable) if fails else nullcontext():
        tenants.board.make_forecast()
    ((interval_s, collects),) = meanwhile
    assert (interval_s <= 0.001, collects) == (True, False)
    assert (sys.getswitchinterval(), gc.isenabled()) == (usual[0], True)
    assert usual[1], "else nothing was seen"


def test_filter_of_a_key_is_clipped_to_its_app(tenants: DeskWorld) -> None:
    desk = tenants.desks().board
    assert desk.some({"tier": "high"}) == Selection(tier="high", app="shop", ids=ScopedIds("shop"))
    assert desk.some({"app": "shop"}).app == "shop"
    assert tenants.operator().board.some({"q": "x"}) == Selection(q="x", ids=ScopedIds(""))
    for foreign in ("news", ""):
        with pytest.raises(NotFound):
            desk.some({"app": foreign})


@pytest.mark.parametrize(
    ("only", "sort", "cursor"),
    [
        ({"state": "gone"}, "id", None),
        ({"state": ""}, "id", None),
        ({}, "size", None),
        ({}, "id", "nonsense"),
        ({"state": "completed", "q": "x"}, "-created", None),
        ({"state": "completed"}, "id", None),
        ({"state": "completed"}, "-created", "nonsense"),
    ],
)
def test_nonsense_about_a_list_is_refused(
    tenants: DeskWorld, only: dict[str, str | None], sort: str, cursor: str | None
) -> None:
    with pytest.raises(InvalidInput):
        tenants.desks().board.tasks(only, sort, 10, cursor)


def test_ended_tasks_are_listed_by_the_ids_of_the_key(tenants: DeskWorld) -> None:
    tenants.operator().tasks.cancel("shop--own", 0.0)
    tenants.operator().tasks.cancel("theirs", 0.0)
    page = tenants.desks().board.tasks({"state": "cancelled"}, "-created", 10, None)
    assert ([task.id for task in page.tasks], page.age) == (["own"], None)


def test_counts_have_the_own_app_alone(tenants: DeskWorld) -> None:
    def counted(app: str | None) -> set[str]:
        desk = tenants.operator() if app is None else tenants.desks(app)
        return set(desk.board.tasks({}, "id", 10, None).counts["app"])

    tenants.board.show()
    assert (counted("shop"), counted("news"), counted(None)) == ({"shop"}, {"news"}, {"shop", "news"})


def test_only_a_key_that_may_read_lists_and_follows(tenants: DeskWorld) -> None:
    desk = tenants.desks(scopes=["submit"]).board  # type: ignore[list-item]
    for call in (lambda: desk.tasks({}, "id", 1, None), lambda: desk.one("own"), lambda: desk.some({})):
        with pytest.raises(FairlaneError, match="scope read"):
            call()
