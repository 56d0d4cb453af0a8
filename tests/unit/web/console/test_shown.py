"""Pages as several sessions see them at once: read once a second for all."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from jinja2 import UndefinedError

from dispatcher.access.principal import Principal, Scope
from dispatcher.model.errors import Unreachable
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing
from tests.unit.web.console.console_world import MemoryDoor
from web.console.page import Page, Visit
from web.console.render import environment
from web.console.shown import LastShown

OPERATOR = Principal(kind="key", name="k", app="", scopes=frozenset({Scope.OPERATOR}))


def page_of(read: Callable[[Visit], dict[str, Any]]) -> Page:
    return Page(name="one", path="/one", title="One", action="tasks.list", read=read)


def visit_of(world: DeskWorld, principal: Principal = OPERATOR) -> Visit:
    return Visit(MemoryDoor(world).desks(principal, "r"), {}, {})


def test_page_is_read_once_for_all_who_ask_meanwhile(world: DeskWorld) -> None:
    asked, may_end, reads = threading.Event(), threading.Event(), list[int]()

    def read(_: Visit) -> dict[str, Any]:
        reads.append(len(reads))
        asked.set()
        may_end.wait(10)
        return {"number": len(reads)}

    last, page = LastShown(), page_of(read)
    with ThreadPoolExecutor(5) as threads:
        shown = [threads.submit(last.read, page, visit_of(world)) for _ in range(5)]
        assert asked.wait(10)
        may_end.set()
        assert [each.result().context for each in shown] == [{"number": 1}] * 5
    assert reads == [0]


def test_page_is_read_for_each_who_may_see_something_else(world: DeskWorld) -> None:
    last, page = LastShown(), page_of(lambda visit: {"app": visit.desks.principal.app})
    for app in ("shop", "news", "shop"):
        own = Principal(kind="key", name=app, app=app, scopes=frozenset({Scope.READ}))
        assert last.read(page, visit_of(world, own)).context == {"app": app}


def test_server_that_does_not_answer_is_waited_for_once_a_second(
    world: DeskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = list[int]()

    def read(_: Visit) -> dict[str, Any]:
        reads.append(len(reads))
        if len(reads) == 2:
            raise Unreachable("Redis does not answer.", "Start it.")
        return {"number": len(reads)}

    last, page = LastShown(), page_of(read)
    assert last.read(page, visit_of(world)).context == {"number": 1}
    monkeypatch.setattr("web.console.shown.FRESH_S", 0.0)
    assert last.read(page, visit_of(world)).trouble is not None
    monkeypatch.setattr("web.console.shown.FRESH_S", 60.0)
    again = last.read(page, visit_of(world))
    assert (again.context, again.trouble is not None, len(reads)) == ({"number": 1}, True, 2)
    monkeypatch.setattr("web.console.shown.FRESH_S", 0.0)
    assert last.read(page, visit_of(world)).trouble is None


async def test_page_whose_template_fails_says_so_to_people_all_the_same(
    world: DeskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise UndefinedError("'parts' is undefined")

    monkeypatch.setattr("web.console.site.render", fail)
    async with browsing(world) as browser:
        page = await browser.get("/")
    assert page.status == 500
    assert page.text.startswith("The request failed. Report it with the request_id ")
    assert "{" not in page.text


def test_templates_that_change_below_a_running_process_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    environment()
    monkeypatch.setattr("pathlib.Path.read_text", None)
    environment().get_template("problem.html")
