"""Pages as several sessions see them at once: read once a second for all."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from jinja2 import UndefinedError

from dispatcher.access.principal import Principal, Scope
from dispatcher.model.errors import Unreachable
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing
from tests.unit.web.console.console_world import MemoryDoor
from web.console.page import Page, Visit
from web.console.render import environment, render
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


def test_update_gets_figures_that_are_too_old_for_a_new_page(world: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count()
    last, page = LastShown(), page_of(lambda _: {"number": next(numbers)})
    last.read(page, visit_of(world))
    monkeypatch.setattr("web.console.shown.FRESH_S", 0.0)
    assert last.read(page, visit_of(world), is_update=True).context == {"number": 0}
    assert last.read(page, visit_of(world)).context == {"number": 1}
    monkeypatch.setattr("web.console.shown.UPDATE_S", 0.0)
    assert last.read(page, visit_of(world), is_update=True).context == {"number": 2}


def test_page_is_read_ahead_once_for_all_who_will_ask(world: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count()
    last, page = LastShown(), page_of(lambda _: {"number": next(numbers)})
    monkeypatch.setattr("web.console.shown.FRESH_S", 0.0)
    last.read(page, visit_of(world))
    renew = last.ahead(page, visit_of(world))
    assert renew is not None
    assert last.ahead(page, visit_of(world)) is None
    renew()
    assert last.read(page, visit_of(world), is_update=True).context == {"number": 1}
    assert last.ahead(page, visit_of(world)) is not None


async def test_updates_of_one_reading_are_rendered_once(world: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = list[str]()

    def render_counted(name: str, context: dict[str, Any]) -> str:
        rendered.append(name)
        return render(name, context)

    monkeypatch.setattr("web.console.site.render", render_counted)
    monkeypatch.setattr("web.console.site.FRESH_S", 600.0)
    monkeypatch.setattr("web.console.shown.UPDATE_S", 600.0)
    async with browsing(world) as browser:
        pages = [await browser.get("/audit", is_update=True) for _ in range(3)]
        await browser.get("/audit")
    assert pages[0] == pages[1] == pages[2]
    assert len(rendered) == 2


async def test_open_page_is_read_ahead_of_its_next_update(world: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.console.site.FRESH_S", 0.0)
    monkeypatch.setattr("web.console.shown.UPDATE_S", 600.0)
    async with browsing(world) as browser:
        await browser.get("/audit")
        world.client.set_capacity(777)
        monkeypatch.setattr("web.console.shown.FRESH_S", 0.0)
        async with asyncio.timeout(10):
            while "777" not in (await browser.get("/audit", is_update=True)).text:
                pass


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
