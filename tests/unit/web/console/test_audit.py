"""The audit page: who did what, filtered, page by page."""

import pytest

from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing


def change(world: DeskWorld, *caps: int) -> None:
    for cap in caps:
        world.client.cap_channel("log", cap)


async def test_change_is_shown_with_who_made_it_and_both_values(world: DeskWorld) -> None:
    world.submit("sale")
    change(world, 500, 700)
    async with browsing(world) as browser:
        seen = await browser.get("/audit")
    assert "client:ana@ops - Cap of channel log 500 700" in seen.text


async def test_filters_by_app_person_and_text_stand_in_the_address(world: DeskWorld) -> None:
    change(world, 500)
    world.client.cap_app("shop", 300)
    async with browsing(world) as browser:
        for address, shown in (
            ("/audit?app=shop", ["Cap of app shop", "Policy of app shop"]),
            ("/audit?by=ANA", ["Cap of app shop", "Cap of channel log", "Policy of app news", "Policy of app shop"]),
            ("/audit?by=bob", []),
            ("/audit?q=300", ["Cap of app shop"]),
        ):
            seen = await browser.get(address)
            for field in ("Cap of app shop", "Cap of channel log", "Policy of app news", "Policy of app shop"):
                assert (field in seen.text) == (field in shown), address
        assert "No change is like that" in (await browser.get("/audit?by=bob")).text
        assert 'value="ANA"' in (await browser.get("/audit?by=ANA")).html


async def test_next_page_goes_on_behind_the_last_change(world: DeskWorld) -> None:
    change(world, *range(100, 160))
    async with browsing(world) as browser:
        first = await browser.get("/audit?app=&by=client")
        address = first.link("Next page")
        second = await browser.get(f"/audit{address}")
    assert "by=client" in address
    assert first.html.count("<time") == 50
    assert [f"log {cap - 1} {cap} " in first.text for cap in (159, 110, 109)] == [True, True, False]
    assert [f"log {cap - 1} {cap} " in second.text for cap in (110, 109, 101)] == [False, True, True]
    assert "First page" in second.text
    assert "Next page" not in second.text


async def test_search_that_finds_little_says_where_it_stopped(
    world: DeskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.console.pages.audit.LOOKS", 3)
    change(world, 100, 101, 102, 103)
    async with browsing(world) as browser:
        seen = await browser.get("/audit?q=policy")
        assert "among those that were looked at" in seen.text
        assert "Policy of app news" in (await browser.get(f"/audit{seen.link('Next page')}")).text


async def test_place_that_is_none_is_refused_with_what_was_typed(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        seen = await browser.get("/audit?before=x&by=ana")
    assert seen.status == 422
    assert "no place in the audit" in seen.text
    assert 'name="by" value="ana"' in seen.html


async def test_settings_and_their_values_are_in_plain_words(world: DeskWorld) -> None:
    world.client.pause_channel("log", app="shop", reason="legal")
    world.client.resume_channel("log", app="shop")
    world.client.pause_channel("log")
    async with browsing(world) as browser:
        seen = (await browser.get("/audit")).text
        found = (await browser.get("/audit?q=paused+on+channel")).text
    assert "App shop paused on channel log no by hand, legal" in seen
    assert "App shop paused on channel log by hand, legal no" in seen
    assert "Channel log paused no yes" in seen
    assert "App shop paused" in found
    assert "Channel log paused" not in found


async def test_hostile_names_are_text(world: DeskWorld) -> None:
    world.submit("sale")
    world.client.edit_message("sale", "<script>alert(1)</script>")
    async with browsing(world) as browser:
        seen = await browser.get("/audit?q=<script>")
    assert "<script>alert" not in seen.html
    assert "<script>alert(1)</script>" in seen.text


async def test_empty_audit_says_what_would_be_here() -> None:
    world = DeskWorld(apps=())
    async with browsing(world) as browser:
        assert "fairlane channel cap log 500" in (await browser.get("/audit")).text


async def test_csv_has_all_changes(world: DeskWorld) -> None:
    change(world, *range(100, 160))
    async with browsing(world) as browser:
        seen = await browser.get("/audit?format=csv&q=cap")
    assert (len(seen.html.splitlines()), seen.file) == (61, "audit.csv")


async def test_csv_of_more_changes_than_it_has_says_so_in_its_name(
    world: DeskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(world, *range(100, 160))
    monkeypatch.setattr("web.console.pages.audit.ROWS_OF_CSV", 20)
    async with browsing(world) as browser:
        assert (await browser.get("/audit?format=csv")).file == "audit-first-20.csv"


async def test_audit_is_for_operators_alone(world: DeskWorld) -> None:
    new = world.client.access.create("shop", ["read"])
    world.book.follow()
    async with browsing(world, new.token) as browser:
        seen = await browser.get("/audit")
    assert seen.status == 403
    assert "cap" not in seen.text


async def test_odd_filters_are_only_texts(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        for path in ("audit", "apps", "dead-letters", "limits", "workers"):
            for value in ("%ff%00", "%ED%A0%80", "..%2F..", "a%0Ab", "%3Cb%3E", "x" * 3_000, "*"):
                for name in ("app", "q", "task", "table", "channel"):
                    seen = await browser.get(f"/{path}?{name}={value}")
                    assert seen.status in (200, 404, 422), (path, name, value)
                    assert "<b>" not in seen.html
