"""The page of dead letters: listed by reason, sent again, dropped."""

import time

import pytest

from tests.records import dead_letter
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing

NOW_MS = int(time.time() * 1000)


@pytest.fixture
def letters(world: DeskWorld) -> DeskWorld:
    """Letters of two apps, an old one, and a message that was no envelope."""
    world.submit("sale")
    world.submit("flash", "news")
    world.connection.letters.topic += [
        dead_letter("sale", ["s1", "s2"], app="shop", at_ms=NOW_MS, reasons=["HTTP 503", "HTTP 400"]),
        dead_letter("flash", ["f1"], app="news", at_ms=NOW_MS, reasons=["HTTP 503"]),
        dead_letter("", app="", at_ms=NOW_MS),
        dead_letter("sale", ["old"], app="shop", at_ms=NOW_MS - 3 * 86_400_000, sequence=7, reasons=["HTTP 503"]),
    ]
    return world


async def test_letters_of_the_last_day_are_shown_by_task_and_reason(letters: DeskWorld) -> None:
    async with browsing(letters) as browser:
        seen = await browser.get("/dead-letters")
    assert "3 targets and 1 message, open, of the last day" in seen.text
    assert "sale shop" in seen.text
    assert "HTTP 400 such as s2 1" in seen.text
    assert "no task" in seen.text
    assert "data-live" not in seen.html  # the topic is not read every two seconds


@pytest.mark.parametrize(
    ("query", "total"),
    [
        ("task=sale", "3 targets"),
        ("app=news", "1 target"),
        ("error=503", "2 targets"),
        ("error=503&since=4d", "3 targets"),
        ("since=1h&channel=", "3 targets and 1 message"),
        ("since=2001-01-31T08:00:00Z", "4 targets and 1 message"),
        ("since=2001-01-31", "4 targets and 1 message"),
        ("since=0001-01-01", "4 targets and 1 message"),
        ("since=99999999999999999999d", "4 targets and 1 message"),
        ("error=nothing", "No dead letter is like that"),
        ("state=dropped", "No dead letter is like that"),
    ],
)
async def test_filter_is_the_address(letters: DeskWorld, query: str, total: str) -> None:
    async with browsing(letters) as browser:
        assert f"{total}" in (await browser.get(f"/dead-letters?{query}")).text


async def test_letters_are_sent_again_by_tasks_that_are_named(letters: DeskWorld) -> None:
    fields = {"error": "HTTP 503", "task": "sale"}
    async with browsing(letters) as browser:
        plan = await browser.send("/dead-letters/send", fields)
        assert "Send 2 targets again 2 targets of 1 task, such as: 2 of sale: HTTP 503" in plan.text
        done = await browser.confirm("/dead-letters/send", fields)
        assert "2 targets in 1 new task." in done.text
        assert done.link("sale.replay-[^<]*").startswith("/tasks/sale.replay-")
        listed = await browser.get("/dead-letters?task=sale&state=replayed")
        assert "2 targets, replayed" in listed.text
        assert "user:local shop Letters replay of sale none 2 letters" in (await browser.get("/audit?by=user:")).text
        again = await browser.send("/dead-letters/send", fields)
    assert "No open letter is like that" in again.text


async def test_letters_are_dropped(letters: DeskWorld) -> None:
    async with browsing(letters) as browser:
        plan = await browser.send("/dead-letters/drop", {"app": "shop"})
        assert "Drop 2 targets" in plan.text
        assert "This cannot be taken back" in plan.text
        assert "2 letters dropped" in (await browser.confirm("/dead-letters/drop", {"app": "shop"})).text
        message = {"without_task": "1", "task": "", "error": ""}
        assert "Drop 0 targets and 1 message" in (await browser.send("/dead-letters/drop", message)).text
        assert "1 letter dropped" in (await browser.confirm("/dead-letters/drop", message)).text
        assert "1 target, open" in (await browser.get("/dead-letters")).text


async def test_more_than_a_million_targets_are_typed(letters: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.console.page.TYPED_TARGETS", 1)
    async with browsing(letters) as browser:
        seen = await browser.confirm("/dead-letters/drop", {"app": "shop"})
        assert "Type 2 to go on" in seen.text
        assert "2 targets, open" in (await browser.get("/dead-letters?app=shop")).text
        fields = {"app": "shop", "typed": "2", "shown": "2"}
        assert "2 letters dropped" in (await browser.confirm("/dead-letters/drop", fields)).text


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"task": " ", "since": ""}, "The filter is empty"),
        ({"since": "<b>soon"}, "Since: '<b>soon' is not a duration"),
        ({"task": "nowhere"}, "There is no task nowhere"),
    ],
)
async def test_wrong_input_says_why_and_keeps_what_was_typed(
    letters: DeskWorld, fields: dict[str, str], says: str
) -> None:
    async with browsing(letters) as browser:
        seen = await browser.confirm("/dead-letters/drop", fields)
        assert "4 targets" in (await browser.get("/dead-letters?since=9d")).text
    assert seen.status in (404, 422)
    assert says in seen.text
    assert "<b>" not in seen.html.partition("<main")[2]
    assert f'value="{next(iter(fields.values()))}"'.replace("<b>", "&lt;b&gt;") in seen.html


async def test_filter_that_is_wrong_can_be_mended_on_the_page(letters: DeskWorld) -> None:
    async with browsing(letters) as browser:
        seen = await browser.get("/dead-letters?since=soon&error=503")
        assert (seen.status, "is not a duration" in seen.text) == (422, True)
        assert 'name="error" value="503"' in seen.html
        assert "must be" in (await browser.get("/dead-letters?state=lost")).text


async def test_key_of_an_app_sees_and_does_what_is_its_own(letters: DeskWorld) -> None:
    may, reads = (letters.client.access.create("shop", scopes) for scopes in (["control", "read"], ["read"]))
    async with browsing(letters, reads.token) as browser:
        seen = await browser.get("/dead-letters")
        assert "flash" not in seen.text
        assert "Drop" not in seen.text
        assert (await browser.confirm("/dead-letters/drop", {"app": "shop"})).status == 403
    async with browsing(letters, may.token) as browser:
        assert "Drop" in (await browser.get("/dead-letters")).text
        assert "There is no app news" in (await browser.send("/dead-letters/drop", {"app": "news"})).text


async def test_hostile_reasons_are_text(letters: DeskWorld) -> None:
    letters.connection.letters.topic += [
        dead_letter("sale", ["<i>"], app="shop", at_ms=NOW_MS, sequence=9, reasons=["<b>\"'&"])
    ]
    async with browsing(letters) as browser:
        seen = await browser.get("/dead-letters")
    assert "<b>" not in seen.html
    assert "<b>\"'& such as <i>" in seen.text


async def test_nothing_failed_says_what_would_be_here(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        assert "Nothing failed in the last day" in (await browser.get("/dead-letters")).text


async def test_csv_has_all_groups(letters: DeskWorld) -> None:
    async with browsing(letters) as browser:
        assert (await browser.get("/dead-letters?format=csv")).html.startswith("task,app,channel,state,replay,outcome")


async def test_form_below_the_table_is_about_the_letters_in_it(letters: DeskWorld) -> None:
    async with browsing(letters) as browser:
        seen = await browser.get("/dead-letters?task=flash&task=sale")
    assert "sale shop" in seen.text
    assert 'value="sale"' in seen.html
    assert 'value="flash"' not in seen.html
