"""The overview: what operators see of the service, and keys of one app of their own tasks."""

import re

import pytest

from backends.redis.guard_states import GUARD_JOB
from dispatcher.model.tier import TIERS
from estate.rules.node_life import NodeKind, NodeRecord, encode_nodes
from producers.desk.board.board import Age
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing
from tests.unit.web.console.test_task import work
from tests.unit.web.console.test_tasks import fail, submit_half


def submit(world: DeskWorld) -> None:
    world.submit("shop--sale")
    world.submit("digest", "news", tier="low", targets=("c",))
    world.submit("news--later", "news", start_at=1_700_086_400.0)


@pytest.fixture
def shown(world: DeskWorld) -> DeskWorld:
    submit(world)
    show(world)
    return world


def show(world: DeskWorld) -> None:
    world.board.read()
    world.board.show()


def rate(world: DeskWorld, id_: str, targets_s: int) -> None:
    """Let a task have been sent at a rate just now."""
    view = world.service.view
    view.command("HSET", view.keys.task(id_), "rate", targets_s, "rate_ms", world.service.clock.wall_ms())


async def test_overview_without_tasks_says_how_to_submit_one(world: DeskWorld) -> None:
    show(world)
    async with browsing(world) as browser:
        page = await browser.get("/")
    assert page.status == 200
    assert "All that is due is sent." in page.text
    assert "fairlane task submit" in page.text


async def test_overview_names_what_is_wrong_first(shown: DeskWorld) -> None:
    async with browsing(shown) as browser:
        page = await browser.get("/")
    assert "Nothing is sent: 1 thing to look at" in page.text
    assert "3 targets wait, and no worker serves." in page.text
    assert "no worker is running" in page.text
    assert "docs/" not in page.text


async def test_overview_names_a_channel_whose_tries_fail_first_and_no_end(shown: DeskWorld) -> None:
    fail(shown, "digest")
    shown.board.foresee(9.0)
    async with browsing(shown) as browser:
        page = await browser.get("/")
    assert "Channel log: tries fail: Failed to connect Task digest of app news waits." in page.text
    assert re.findall(r'<tr id="t-([^"]*)"', page.html)[0] == "digest"
    assert "no end in sight" in page.text
    assert " log failing " in page.text
    assert "more are needed" not in page.text
    assert "would be needed" not in page.text


async def test_task_that_is_sent_without_a_known_end_is_no_concern(shown: DeskWorld) -> None:
    work(shown)
    rate(shown, "digest", 5)
    async with browsing(shown) as browser:
        page = await browser.get("/")
    assert "digest" in page.html
    assert "Task digest of app news has no end in sight" not in page.text


async def test_overview_leads_from_a_cap_to_the_form_that_changes_it(world: DeskWorld) -> None:
    world.client.cap_app("shop", 20, channel="log")
    submit(world)
    show(world)
    async with browsing(world) as browser:
        page = await browser.get("/")
    assert page.link("app shop on channel log") == "/limits?app=shop&channel=log#change"


async def test_pause_with_an_end_says_it(shown: DeskWorld) -> None:
    work(shown)
    shown.client.pause_channel("log", app="shop", reason="legal", for_s=600)
    async with browsing(shown) as browser:
        text = (await browser.get("/")).text
    assert re.search(
        r"nothing is sent of sale : app shop is paused .* \(hand, legal, until [-\d: ]+\)", text.replace("shop--", "")
    )
    assert re.search(r"App shop is paused on channel log hand, legal, until \d", text)


async def test_overview_counts_tasks_of_each_state(shown: DeskWorld) -> None:
    async with browsing(shown) as browser:
        page = await browser.get("/")
    assert "2 running, 1 scheduled" in page.text


async def test_overview_shows_no_figures_before_all_tasks_are_read(shown: DeskWorld) -> None:
    shown.board.age = lambda app="": Age(0, 1.0, complete=False, read=42_000, total=100_000)  # type: ignore[method-assign]
    async with browsing(shown) as browser:
        page = await browser.get("/")
    assert "42,000 of 100,000 tasks read" in page.text
    assert "targets wait" not in page.text
    assert "Waiting" not in page.text


async def test_last_overview_stays_while_redis_is_gone(shown: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.console.shown.FRESH_S", 0.0)
    async with browsing(shown) as browser:
        await browser.get("/")
        shown.service.redis.gone = True
        page = await browser.get("/")
    assert 'class="stale"' in page.html
    assert "These figures are" in page.text
    assert "sale" in page.text


async def test_key_of_one_app_sees_its_own_tasks_and_no_figures_of_the_service(shown: DeskWorld) -> None:
    token = shown.client.access.create("shop", ["read"], None).token
    shown.book.follow()
    async with browsing(shown, token) as browser:
        page = await browser.get("/")
    assert "2 targets wait, and no end is in sight for sale" in page.text
    for foreign in ("digest", "news", "Shares", "Workers", "Capacity"):
        assert foreign not in page.text


async def test_overview_gives_the_tasks_that_wait_as_csv(shown: DeskWorld) -> None:
    async with browsing(shown) as browser:
        csv = (await browser.get("/?format=csv")).html
    assert csv.splitlines()[0].startswith("id,app,tier")
    assert {line.split(",")[0] for line in csv.splitlines()[1:]} == {"shop--sale", "digest", "news--later"}


async def test_all_tables_of_the_overview_come_as_csv(shown: DeskWorld) -> None:
    shown.client.set_capacity(10)
    async with browsing(shown) as browser:
        page = await browser.get("/")
        tables = re.findall(r'href="\?table=(\w+)&amp;format=csv"', page.html)
        assert tables == ["tiers", "limits", "tasks", "channels", "audit"]
        for table, column in zip(tables, ("tier", "binds", "id", "channel", "app,at_ms"), strict=True):
            assert (await browser.get(f"/?table={table}&format=csv")).html.startswith(column)


async def test_overview_has_the_worst_node_of_the_estate_while_a_guard_runs(shown: DeskWorld) -> None:
    nodes = [
        NodeRecord(kind=NodeKind.BROKER, name="broker-1:8080", state="serving"),
        NodeRecord(kind=NodeKind.BOOKIE, name="bookie-1:3181", state="serving"),
        NodeRecord(kind=NodeKind.BOOKIE, name="bookie-2:3181", state="suspect"),
    ]
    async with browsing(shown) as browser:
        assert "fairlane estate guard" in (await browser.get("/")).text
        shown.connection.locks.hold([GUARD_JOB], "guard", 3_600_000, 1, ())
        shown.connection.guarded.keep("guard", encode_nodes({node.key: node for node in nodes}))
        assert "1 broker, 2 bookies worst: bookie bookie-2:3181 suspect" in (await browser.get("/?x=1")).text


async def test_every_concern_leads_operators_to_its_runbook(shown: DeskWorld) -> None:
    async with browsing(shown) as browser:
        at = (await browser.get("/")).link("Runbook")
        page = await browser.get(at.partition("#")[0])
    assert f'id="{at.partition("#")[2]}"' in page.html
    assert not re.findall(r'<main.*href="[^"#/]', page.html, re.DOTALL), "it has no dead link"
    token = shown.client.access.create("shop", ["read"], None).token
    shown.book.follow()
    async with browsing(shown, token) as browser:
        assert "Runbook" not in (await browser.get("/")).text


async def test_overview_shows_the_chart_of_what_was_sent(shown: DeskWorld) -> None:
    shown.connection.figures.keep([5.0] * len(TIERS), [0] * len(TIERS))
    async with browsing(shown) as browser:
        page = (await browser.get("/")).html
    chart = page[page.index('<div class="chart">') : page.index("</svg>", page.index('<div class="chart">'))]
    assert "<style" not in chart
    assert " style=" not in page


async def test_submission_that_broke_off_says_for_how_long(world: DeskWorld) -> None:
    submit_half(world)
    world.service.clock.advance(723)
    async with browsing(world) as browser:
        page = await browser.get("/")
    assert "its submission is not complete: 0 targets are stored, and none for 12 m 03 s" in page.text
