"""The page of tasks: what it lists, and changes of many tasks that are previewed first."""

import csv
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher.access.principal import Scope
from dispatcher.analysis.send_errors import SendError
from dispatcher.model.task import PushTask
from dispatcher.wire.topics import Topics
from producers.desk.board.board import Age
from quotas.ledger import RedisLedger
from tests.records import beat
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing

HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 77 * 77 }}", "\u202eelas", "a b&c=d"]


@pytest.fixture
def world(world: DeskWorld) -> DeskWorld:
    """Two apps; 12 tasks of `shop` are of tier low."""
    world.client.set_capacity(10)
    for number in range(12):
        world.submit(f"low-{number:02}", tier="low")
    world.submit("sale", targets=[f"t{number}" for number in range(50)])
    world.submit("digest", "news", tier="medium")
    show(world)
    return world


def show(world: DeskWorld) -> None:
    """Let the board read all tasks."""
    world.service.clock.advance(60)
    world.book.follow()
    world.board.read()
    world.board.show()


def fail(world: DeskWorld, *tasks: str) -> None:
    """Put back all targets of running tasks: no connection to the provider. A worker runs and has their channel."""
    now_ms = round(time.time() * 1000)
    world.connection.workers.beat(beat("w1", extra={"channels": ["log"]}))
    error = SendError("", 0, 0, 0, now_ms + 30_000, 67_660, now_ms, "Failed to connect")
    RedisLedger(world.service.view, Topics()).note_sends(dict.fromkeys(tasks, error), {})


def submit_half(world: DeskWorld, **fields: Any) -> None:
    """Submit a task of shop whose audience breaks off."""

    def audience() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    task = PushTask(id="half", app="shop", tier="high", channel="log", message="Hi", **fields)
    with pytest.raises(ZeroDivisionError):
        world.client.submit(task, audience())


def token(world: DeskWorld, *scopes: Scope, app: str = "shop") -> str:
    made = world.client.access.create(app, scopes or [Scope.READ, Scope.CONTROL]).token
    world.book.follow()
    return made


def rows(html: str) -> list[str]:
    return re.findall(r'<tr id="t-([^"]*)"', html)


def paused(world: DeskWorld) -> int:
    return sum(task.state == "paused" for task in world.board.live())


# ------------------------------------------------------------------------------ what is listed


async def test_filter_is_the_address_and_counts_are_of_what_matches(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        every = await browser.get("/tasks")
        assert len(rows(every.html)) == 14
        assert "stuck 14 incomplete 0 scheduled 0 running 0" in every.text
        assert "14 of 14 tasks" in every.text
        low = await browser.get("/tasks?tier=low&q=low-0&sort=-created")
        assert rows(low.html) == [f"low-{number:02}" for number in reversed(range(10))]
        assert "low 10" in low.text
        assert "high 0" in low.text
        assert "All 10 that match" in low.text
        assert "tier=low&amp;q=low-0&amp;sort=-created&amp;format=csv" in low.html
        assert rows((await browser.get("/tasks?app=news")).html) == ["digest"]


async def test_tasks_whose_tries_fail_and_stuck_ones_are_counted_and_filtered(
    world: DeskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(world, "low-07")
    monkeypatch.setattr(world.board, "_etas", {f"low-{number:02}": 10.0 for number in range(12)})
    async with browsing(world) as browser:
        page = await browser.get("/tasks")
        assert len(rows(page.html)) == 14
        assert "failing 1" in page.text
        assert "stuck 2 incomplete 0 scheduled 0 running 11" in page.text, "each is counted once"
        assert "no end in sight" in page.text
        assert rows((await browser.get("/tasks?state=failing")).html) == ["low-07"]
        page = await browser.get("/tasks?state=stuck&tier=high")
        assert rows(page.html) == ["sale"]
        assert "stuck 1" in page.text
        assert "1 of 1 task " in page.text
        assert "No failing task matches." in (await browser.get("/tasks?state=failing&app=news")).text
        await browser.confirm("/tasks/change", {"do": "pause", "which": "all", "state": "stuck"})
        assert {task.id for task in world.board.live() if task.state == "paused"} == {"sale", "digest"}
        assert "failing" in (await browser.get("/tasks/low-07")).text
        assert "in 10 s" not in (await browser.get("/tasks/low-07")).text


async def test_tasks_are_counted_and_filtered_by_their_badges(world: DeskWorld) -> None:
    world.client.change_service(lambda service: service.pause_flow("log", "news"))
    submit_half(world)
    async with browsing(world) as browser:
        assert "incomplete 1 scheduled 0 running 0 paused 1" in (await browser.get("/tasks")).text
        for state, task in (("incomplete", "half"), ("paused", "digest")):
            page = await browser.get(f"/tasks?state={state}")
            assert rows(page.html) == [task]
            assert f"{task} " in page.text
            assert f" {state} " in page.text.partition("Why it waits")[2]


async def test_rows_say_what_holds_the_task_back(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        assert (await browser.get("/tasks?q=sale")).text.count("no worker is running") == 1
        fail(world, "sale")  # a worker runs from here on
        world.client.task("digest").pause()
        page = await browser.get("/tasks")
        assert page.text.count("tries fail: Failed to connect") == 1
        assert page.text.count("it is paused") == 1
        assert "no worker" not in page.text
        world.client.cap_app("shop", 5)
        assert "the cap of 5/s of app shop holds it back" in (await browser.get("/tasks?q=low-00")).text
        world.client.pause_channel("log")
        assert (await browser.get("/tasks?tier=high")).text.count("channel log is paused") == 1


async def test_time_below_the_page_goes_on(world: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    async with browsing(world) as browser:
        for seconds, shown in ((86_400.0, "00:00:00 UTC"), (90_061.0, "01:01:01 UTC")):
            monkeypatch.setattr("web.console.render.time.time", lambda: seconds)  # noqa: B023
            assert shown in (await browser.get("/tasks")).text
            monkeypatch.undo()


async def test_pages_follow_each_other_until_every_task_was_shown(world: DeskWorld) -> None:
    for number in range(60):
        world.submit(f"more-{number}", targets=["a"])
    show(world)
    async with browsing(world) as browser:
        page, seen = await browser.get("/tasks?sort=id"), list[str]()
        assert "50 of 74 tasks" in page.text
        assert "First page" not in page.text
        while True:
            seen += rows(page.html)
            link = re.search(r'rel="next" href="([^"]*)"', page.html)
            if link is None:
                break
            page = await browser.get(link[1].replace("&amp;", "&"))
            assert "First page" in page.text
        assert seen == sorted(seen)
        assert len(seen) == 74


async def test_search_finds_tasks_by_their_app_and_leads_to_ended_ones(world: DeskWorld) -> None:
    world.service.finish("digest")
    world.service.fold()
    async with browsing(world) as browser:
        assert len(rows((await browser.get("/tasks?q=hop")).html)) == 13
        page = await browser.get("/tasks?q=news")
        assert rows(page.html) == []
        for address in ("/tasks?state=completed&app=news", "/tasks?q=news&state=cancelled"):
            assert f'href="{address.replace("&", "&amp;")}"' in page.html
        assert rows((await browser.get("/tasks?app=news&state=completed")).html) == ["digest"]
        page = await browser.get("/tasks?q=dig")
        assert '<a href="/tasks?q=dig&amp;state=completed">' in page.html
        assert rows((await browser.get("/tasks?q=dig&state=completed")).html) == ["digest"]


async def test_ended_tasks_are_listed_newest_first_and_not_changed(world: DeskWorld) -> None:
    for id_ in ("low-00", "sale"):
        world.service.clock.advance(1)
        world.service.finish(id_)
    world.service.fold()
    async with browsing(world) as browser:
        page = await browser.get("/tasks?state=completed&sort=eta")
        assert set(rows(page.html)) == {"low-00", "sale"}
        assert 'type="checkbox"' not in page.html
        assert rows((await browser.get("/tasks?state=completed&q=sa")).html) == ["sale"]


async def test_table_comes_as_csv_with_every_row_that_matches(world: DeskWorld) -> None:
    for number in range(60):
        world.submit(f"more-{number}", targets=["a"])
    async with browsing(world) as browser:
        page = await browser.get("/tasks?q=more-&format=csv")
        table = list(csv.DictReader(page.html.splitlines()))
        assert len(table) == 60
        assert table[0]["targets.pending"] == "1"
        assert page.file == "tasks.csv"


async def test_csv_that_does_not_have_all_rows_says_so_in_its_name(
    world: DeskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.console.pages.tasks.MAX_ROWS", 7)
    async with browsing(world) as browser:
        assert "CSV of the first 7" in (await browser.get("/tasks")).text
        assert (await browser.get("/tasks?format=csv")).file == "tasks-first-7.csv"


async def test_empty_list_says_what_puts_a_task_there() -> None:
    world = DeskWorld()
    world.book.follow()
    async with browsing(world) as browser:
        show(world)
        assert "curl -sS -H @shop.key $API/v1/tasks --json" in (await browser.get("/tasks")).text
        found = await browser.get("/tasks?q=gone")
        assert "No live task matches." in found.text
        assert '<a href="/tasks/gone">' in found.html
        assert "which may have ended" not in (await browser.get("/tasks?q=a+text")).text


async def test_list_that_is_not_complete_says_so(world: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.board, "age", lambda app="": Age(0, 1.0, complete=False, read=42_000, total=100_000))
    async with browsing(world) as browser:
        page = await browser.get("/tasks")
        assert "42,000 of 100,000 tasks read" in page.text
        assert "14 of 14 tasks read so far" in page.text


async def test_last_list_stays_while_redis_is_gone(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        assert len(rows((await browser.get("/tasks")).html)) == 14
        world.service.redis.gone = True
        page = await browser.get("/tasks?q=&x=1")
        assert page.status == 200
        assert "Redis" in page.text


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_filter_is_shown_as_text(world: DeskWorld, text: str) -> None:
    async with browsing(world) as browser:
        for name in ("q", "app", "channel", "tier"):
            page = await browser.get(f"/tasks?{name}={''.join(f'%{byte:02x}' for byte in text.encode())}")
            assert page.status == 200
            assert "<script>alert" not in page.html
            assert "<img src" not in page.html
            assert "5929" not in page.text


# ------------------------------------------------------------------------------ what one may see and do


async def test_key_of_an_app_sees_and_changes_its_own_tasks_alone(world: DeskWorld) -> None:
    async with browsing(world, token(world)) as browser:
        page = await browser.get("/tasks")
        assert len(rows(page.html)) == 13
        assert "news" not in page.text
        assert "digest" not in page.text
        for fields in ({"id": "~digest"}, {"id": ["~sale", "~digest"]}, {"which": "all", "app": "news"}):
            refused = await browser.confirm("/tasks/change", {"do": "pause", **fields})
            assert refused.status == 404
        assert paused(world) == 0
        await browser.confirm("/tasks/change", {"do": "pause", "id": "~sale"})
        assert paused(world) == 1


async def test_who_may_not_change_tasks_is_offered_nothing_and_refused(world: DeskWorld) -> None:
    async with browsing(world, token(world, Scope.READ)) as browser:
        page = await browser.get("/tasks")
        assert 'type="checkbox"' not in page.html
        assert "Pause" not in page.text
        assert (await browser.confirm("/tasks/change", {"do": "pause", "id": "~sale"})).status == 403
        assert paused(world) == 0


# ------------------------------------------------------------------------------ changes of many


async def test_ticked_tasks_are_changed_after_their_plan_was_seen(world: DeskWorld) -> None:
    fields = {"do": "set", "weight": "4", "id": ["sale", "low-00"], "tier": "", "cap": ""}
    async with browsing(world) as browser:
        plan = await browser.send("/tasks/change", fields)
        assert "Set weight 4 for 2 tasks" in plan.text
        assert "sale: weight 1 → 4" in plan.text
        assert "Targets that wait: 52." in plan.text
        assert "Done now Done then" in plan.text
        assert [task.weight for task in world.board.live()] == [1.0] * 14
        done = await browser.confirm("/tasks/change", fields)
        assert "Set weight 4 for 2 tasks." in done.text
    assert {task.id for task in world.board.live() if task.weight == 4} == {"sale", "low-00"}
    entries = list(world.client.audit(10))
    assert {(entry.by, entry.task, entry.field) for entry in entries if entry.field == "weight"} == {
        ("user:local", "sale", "weight"),
        ("user:local", "low-00", "weight"),
    }


async def test_number_of_more_than_ten_tasks_is_typed(world: DeskWorld) -> None:
    fields = {"do": "pause", "which": "all", "tier": "low"}
    async with browsing(world) as browser:
        assert "Type 12 to go on" in (await browser.send("/tasks/change", fields)).text
        for typed in ("", "11", "12 12", "x"):
            again = await browser.confirm("/tasks/change", {**fields, "shown": "12", "typed": typed})
            assert "That is another number." in again.text
            assert paused(world) == 0
        done = await browser.confirm("/tasks/change", {**fields, "shown": "12", "typed": "12"})
        assert "Paused 12 tasks." in done.text
        assert "/tasks?tier=low" in done.html
    assert paused(world) == 12


async def test_change_of_all_that_match_is_of_the_text_too(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        done = await browser.confirm("/tasks/change", {"do": "cancel", "which": "all", "q": "ale", "app": "shop"})
        assert "Cancelled task sale." in done.text
        nothing = await browser.confirm("/tasks/change", {"do": "cancel", "which": "all", "q": "no-such"})
        assert "No live tasks have 'no-such' in their ids." in nothing.text


async def test_change_of_everything_is_refused(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        for fields, cause in (
            ({"which": "all"}, "No filter is set: this would be all tasks."),
            ({"which": "ticked"}, "No task is ticked."),
            ({"which": "ticked", "tier": "low"}, "No task is ticked."),
            ({"id": ""}, "No task is ticked."),
        ):
            page = await browser.confirm("/tasks/change", {"do": "pause", **fields})
            assert page.status == 422
            assert cause in page.text
    assert paused(world) == 0


async def test_plan_of_tasks_that_have_ended_meanwhile_names_them(world: DeskWorld) -> None:
    fields = {"do": "pause", "id": ["sale", "low-00"]}
    async with browsing(world) as browser:
        await browser.send("/tasks/change", fields)
        world.service.finish("sale")
        world.service.fold()
        done = await browser.confirm("/tasks/change", fields)
        assert "Paused task low-00. Not changed, as far as is known: 1 task. Task sale is completed" in done.text


@pytest.mark.parametrize(
    "fields",
    [{"weight": "x"}, {"weight": "nan"}, {"weight": "0"}, {"tier": "top"}, {"cap": "fast"}, {}, {"weight": "1\n2"}],
)
async def test_wrong_value_is_refused_and_named(world: DeskWorld, fields: dict[str, str]) -> None:
    async with browsing(world) as browser:
        page = await browser.confirm("/tasks/change", {"do": "set", "id": "sale", **fields})
        assert page.status == 422
        assert next(iter(fields), "nothing to change") in page.text
