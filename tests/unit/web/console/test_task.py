"""The page of one task: how far it is, why it is not sooner, what would help, and its changes."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from dispatcher.access.principal import Scope
from dispatcher.model.pools import Cap
from dispatcher.model.task import PushTask
from producers.control.task_changes import Changes, TaskFilter
from tests.records import beat, target_record
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import Browser, browsing
from tests.unit.web.console.test_tasks import fail, show, submit_half, token
from web.console.causes import cause_now

MESSAGE = {
    "title": "Sale",
    "body": "50 % off\nfor you",
    "image": "https://example.com/a.png",
    "data": {"go": "cart"},
    "locales": {"de": {"title": "Ausverkauf"}, "fr": {"body": "Soldes"}},
}
ACTIONS = {
    "pause": ({"do": "pause"}, "Pause task sale", "Paused task sale.", ("state", "paused")),
    "cancel": ({"do": "cancel"}, "Cancel task sale", "Cancelled task sale.", ("state", "cancelled")),
    "weight": ({"weight": "2.5"}, "Set weight 2.5 for task sale", "Set weight 2.5 for task sale.", ("weight", 2.5)),
    "tier": ({"tier": "low"}, "Set tier low for task sale", "Set tier low for task sale.", ("tier", "low")),
    "cap": ({"cap": "100:20"}, "Set cap 100:20 for task sale", "Set cap 100:20 for task sale.", ("cap", 100)),
}
"""By name: what the form sends, the title of its plan, what is said then, and what the task has then."""


@pytest.fixture
def world(world: DeskWorld) -> DeskWorld:
    world.client.set_capacity(10)
    world.submit("sale", targets=[f"t{number}" for number in range(50)], tier="medium", cap=8, message=MESSAGE)
    world.submit("digest", "news", tier="medium", targets=["a"] * 40)
    world.desks().tasks.submit({"id": "own", "tier": "low", "channel": "log", "message": "Hi"}, ["a"])
    show(world)
    return world


def work(world: DeskWorld) -> None:
    """Let a worker run."""
    world.connection.workers.beat(beat("w1", extra={"channels": ["log"]}))


def sale(world: DeskWorld) -> Any:
    return world.client.task("sale").progress()


async def changed(browser: Browser, fields: dict[str, str]) -> str:
    return (await browser.confirm("/tasks/sale/change", fields)).text


# ------------------------------------------------------------------------------ what is shown


async def test_page_says_how_far_why_and_the_same_as_commands(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        page = await browser.get("/tasks/sale")
        assert "Waiting 50" in page.text
        assert "Now: no worker is running" in page.text
        assert '<a class="link" href="/workers">' in page.html
        assert "curl -sS -H @operator.key $API/v1/tasks/sale fairlane" not in page.text
        assert "curl -sS -H @operator.key $API/v1/tasks/sale" in page.text
        assert "fairlane task show sale" in page.text
        assert "No target has failed." in page.text


def pause_app(world: DeskWorld) -> None:
    world.client.pause_channel("log", app="shop")


def cap_app(world: DeskWorld) -> None:
    world.client.cap_app("shop", 2, channel="log")
    count(world, "cap:app_channel/shop/log")


def cap_pool(world: DeskWorld, kind: str) -> None:
    """Let a cap of one kind bind."""
    if kind == "channel":
        world.client.change_service(lambda service: service.cap_channel("log", Cap(2)))
    elif kind == "app":
        world.client.cap_app("shop", 2)
    else:
        world.client.change_service(lambda service: service.cap_quota("project", Cap(2), "request"))
        world.client.change_service(lambda service: service.join_quota("project", "log", "shop"))
    name = {"channel": "log", "app": "shop", "quota": "project"}[kind]
    count(world, f"cap:{kind}/{name}")


def cap_task(world: DeskWorld) -> None:
    world.client.task("sale").set_cap(2)
    count(world, "task_cap")


def use_capacity(world: DeskWorld) -> None:
    world.client.task("sale").set_cap("none")
    count(world, "cap_total")


def count(world: DeskWorld, cause: str) -> None:
    """Let the ledger have counted a cause just now."""
    view, now_ms = world.service.view, world.service.clock.wall_ms()
    view.command("HSET", view.keys.task("sale"), "why", f"{cause}=500", "why_from", now_ms - 500, "why_ms", now_ms)


CURES: dict[str, tuple[Callable[[DeskWorld], object], str, str]] = {
    "channel paused": (lambda world: world.client.pause_channel("log"), "Channel log resumed done", "/limits/channel"),
    "app paused": (pause_app, "App shop resumed on channel log done", "/limits/channel"),
    "task paused": (lambda world: world.client.task("sale").pause(), "Resumed done", "/tasks/sale/change"),
    "cap of app": (cap_app, "No cap of app shop on channel log done", "/limits/channel"),
    "cap of channel": (partial(cap_pool, kind="channel"), "No cap of channel log done", "/limits/channel"),
    "cap of all channels": (partial(cap_pool, kind="app"), "No cap of app shop done", "/limits/app"),
    "quota": (partial(cap_pool, kind="quota"), "No cap of quota project done", "/limits/quota"),
    "own cap": (cap_task, "No cap of its own done", "/tasks/sale/change"),
    "capacity": (use_capacity, "Capacity 20/s done", "/limits/service"),
    "failing": (lambda world: fail(world, "sale"), "Let its provider answer: check the address", ""),
}
"""By what holds a task back: what makes it so, what is said first to help, and the form of it."""


@pytest.mark.parametrize("name", CURES)
async def test_first_of_what_would_help_is_the_end_of_what_holds_a_task_back(
    world: DeskWorld, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.console.shown.FRESH_S", 0.0)
    make, first, form = CURES[name]
    work(world)
    make(world)
    async with browsing(world) as browser:
        page = await browser.get("/tasks/sale")
        assert f"What would help {first}" in page.text
        if form:
            helps = page.html.partition("What would help</h2>")[2]
            action, inputs = re.findall(r'<form method="post" action="([^"]*)">(.*?)<button', helps)[0]
            assert action == form
            plan = await browser.send(form, dict(re.findall(r'name="([^"]*)" value="([^"]*)"', inputs)))
            assert "sale" in plan.text
            await browser.send(form, plan.hidden)
            assert f"What would help {first}" not in (await browser.get("/tasks/sale")).text


async def test_who_may_not_change_settings_is_told_who_may(world: DeskWorld) -> None:
    work(world)
    pause_app(world)
    async with browsing(world, token(world)) as browser:
        page = await browser.get("/tasks/~sale?if=1")
        assert "What would help Ask an operator: limits of the service hold it back." in page.text
        assert "/limits" not in page.html


async def test_with_many_tasks_the_cure_is_offered_before_its_effect_is_worked_out(
    world: DeskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.console.pages.task.FEW_TASKS", 1)
    pause_app(world)
    work(world)
    async with browsing(world) as browser:
        assert (
            "App shop resumed on channel log Its plan says what it would do." in (await browser.get("/tasks/sale")).text
        )


async def test_resume_of_a_task_whose_app_is_paused_says_so_and_leads_there(world: DeskWorld) -> None:
    world.client.pause_channel("log", app="shop", reason="legal")
    async with browsing(world) as browser:
        seen = await browser.send("/tasks/sale/change", {"do": "resume"})
        assert "Task sale is not paused itself, but app shop is paused on channel log (hand, legal)" in seen.text
        assert seen.link("Open the form") == "/limits?app=shop&channel=log#change"
        assert '<input type="hidden" name="do" value="resume">' in seen.html
    async with browsing(world, token(world, Scope.CONTROL)) as browser:
        assert "Open the form" not in (await browser.send("/tasks/sale/change", {"do": "resume"})).text


async def test_message_is_shown_in_each_language_and_loads_no_picture(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        page = await browser.get("/tasks/sale")
        assert "Sale 50 % off for you https://example.com/a.png" in page.text
        assert "de Ausverkauf 50 % off" in page.text
        assert "fr Sale Soldes" in page.text
        assert "<img" not in page.html


async def test_changes_that_would_help_are_shown_with_whom_they_delay(world: DeskWorld) -> None:
    work(world)
    async with browsing(world) as browser:
        page = await browser.get("/tasks/sale")
        assert "Alone this would not help: no cap of its own." in page.text
        assert "Tier high done" in page.text
        assert "sooner" in page.text
        assert "digest" in page.text
        assert '<input type="hidden" name="tier" value="high">' in page.html


async def test_key_of_an_app_gets_what_would_help_when_it_asks(world: DeskWorld) -> None:
    work(world)
    async with browsing(world, token(world)) as browser:
        page = await browser.get("/tasks/~sale")
        assert "Work out what would help" in page.text
        page = await browser.get("/tasks/~sale?if=1")
        assert "Tier high done" in page.text
        assert "tasks of other apps too" in page.text
        assert "digest" not in page.text


async def test_what_the_policy_forbids_is_not_offered(world: DeskWorld) -> None:
    work(world)
    world.allow("shop", tier="medium", weight=1.0)
    async with browsing(world, token(world)) as browser:
        page = await browser.get("/tasks/~sale?if=1")
        assert "Alone this would not help: no cap of its own." in page.text
        assert "Tier high" not in page.text
        assert "Twice the weight" not in page.text


async def test_reasons_of_failures_are_read_when_they_are_asked_for(
    world: DeskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = [target_record(f"t{number}", task="sale", reason="HTTP 503 <b>") for number in range(3)]
    monkeypatch.setattr(world.connection, "failures", lambda _: iter(failed))
    async with browsing(world) as browser:
        assert "HTTP 503" not in (await browser.get("/tasks/sale")).text
        page = await browser.get("/tasks/sale?failures=1")
        assert "HTTP 503 <b> failed 3 " in page.text
        assert "data-live" not in page.html
        assert "HTTP 503 <b>,3," in (await browser.get("/tasks/sale?failures=1&format=csv")).html


async def test_page_of_a_task_whose_tries_fail_says_why_without_the_command_line(world: DeskWorld) -> None:
    fail(world, "sale")
    async with browsing(world) as browser:
        text = (await browser.get("/tasks/sale")).text
        assert "Now: its tries fail: Failed to connect, next at " in text
        assert text.count("Failed to connect") == 1
        assert "Let its provider answer: check the address and the settings of channel log, or pause" in text
        assert "Nothing is lost: it is tried again by itself." in text
        assert "No weight, tier or cap helps while its tries fail." in text
        assert "67,660 tries were put back unsent so far" in text
        assert "Now: " in (await browser.get("/tasks/digest")).text


async def test_cause_of_now_is_said_once_above_those_of_the_past(world: DeskWorld) -> None:
    world.client.task("sale").pause()
    world.service.clock.advance(10)
    async with browsing(world) as browser:
        page = (await browser.get("/tasks/sale")).html
        now, past = page[page.index('<div class="list now">') :].partition("</ul>")[0].split('<ul class="list">')
        assert "Now: it is paused" in now
        assert "14.3%" in now
        assert '<li class="muted">' in past
        assert "paused" not in past
        assert "/workers" not in past


async def test_page_offers_nothing_to_change_while_no_worker_runs(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        page = await browser.get("/tasks/sale")
        assert "No weight, tier or cap helps while no worker is running." in page.text
        assert "Plan…" not in page.text


async def test_task_whose_submission_has_died_says_so_everywhere(world: DeskWorld) -> None:
    work(world)
    submit_half(world, expected_targets=30_000, hold_until_sealed=True)
    text = "its submission is not complete: 0 of 30,000 targets are stored"
    async with browsing(world) as browser:
        page = (await browser.get("/tasks/half")).text
        assert f"Now: {text}" in page
        assert "Submit the same targets again with the same id: it goes on where it broke off." in page
        assert "No weight, tier or cap helps while its submission is not complete." in page
        assert "0 of 0 stored; 30,000 announced" in page
        plan = (await browser.send("/tasks/half/change", {"do": "cancel"})).text
        assert "Targets that would never be sent: 0, and 30,000 more that are announced." in plan
        assert " running " not in page
        assert text in (await browser.get("/tasks?q=half")).text
        assert text in (await browser.get("/")).text


async def test_cap_is_named_with_its_rate_and_who_set_it(world: DeskWorld) -> None:
    world.client.cap_app("shop", 20, channel="log")
    assert cause_now(
        world.client.task("sale").progress(), "cap:app_channel/shop/log", settings=world.client.globals()
    ) == (
        "cap:app_channel/shop/log",
        "the cap of 20/s of app shop on channel log holds it back",
    )
    async with browsing(world) as browser:
        page = await browser.get("/tasks/sale")
        assert "client:ana@ops Cap of app shop on channel log: none → 20" in page.text


async def test_scheduled_task_says_when_it_starts(world: DeskWorld) -> None:
    world.submit("later", start_at=1_700_086_400.0)
    async with browsing(world) as browser:
        for page in ("/tasks/later", "/tasks?q=later", "/"):
            assert "it starts at 2023-11-15 22:13:20 (in " in (await browser.get(page)).text, page


async def test_ended_task_has_an_outcome_and_no_actions(world: DeskWorld) -> None:
    world.service.finish("sale")
    world.service.fold()
    async with browsing(world) as browser:
        page = await browser.get("/tasks/sale")
        assert "completed" in page.text
        assert "The message of an ended task is not kept." in page.text
        assert '<form class="form" method="post"' not in page.html
        assert "What would help" not in page.text


async def test_progress_of_a_cancelled_task_is_what_was_sent(world: DeskWorld) -> None:
    world.client.task("sale").cancel()
    world.service.fold()
    async with browsing(world) as browser:
        page = await browser.get("/tasks/sale")
        assert "Progress 0.0% 0 of 50 sent" in page.text


async def test_trial_waits_for_a_go_and_gets_it(world: DeskWorld) -> None:
    task = PushTask(id="trial", app="shop", tier="high", channel="log", message="Hi")
    world.client.submit(task, ["a", "b", "c"], first=1)
    async with browsing(world) as browser:
        page = await browser.get("/tasks/trial")
        assert "waits for a go" in page.text
        assert "Send the others…" in page.text
        plan = await browser.send("/tasks/trial/change", {"do": "resume"})
        assert "The trial of task trial ends, and all other targets are sent." in plan.text
        await browser.confirm("/tasks/trial/change", {"do": "resume"})
        assert world.client.task("trial").progress().state == "running"


@pytest.mark.parametrize("id_", ["nowhere", "~sale", "%3Cscript%3E", "%2e%2e", "a%20b", "%F0%9F%92%A5", "sale%0a"])
async def test_unknown_task_is_a_404_that_helps_to_find_others(world: DeskWorld, id_: str) -> None:
    async with browsing(world) as browser:
        page = await browser.get(f"/tasks/{id_}")
        assert page.status == 404
        assert "There is no task" in page.text
        assert "<script>" not in page.html
        assert 'name="q"' in page.html


async def test_task_of_another_app_does_not_exist(world: DeskWorld) -> None:
    async with browsing(world, token(world)) as browser:
        for id_ in ("digest", "~digest", "nowhere"):
            page = await browser.get(f"/tasks/{id_}")
            assert (page.status, f"There is no task {id_}." in page.text) == (404, True)
            for form, fields in (("change", {"do": "pause"}), ("message", {"body": "x"})):
                refused = await browser.confirm(f"/tasks/{id_}/{form}", fields)
                assert (refused.status, f"There is no task {id_}." in refused.text) == (404, True)
        assert (await browser.get("/tasks/own")).status == 200
        assert "/tasks/own/change" in (await browser.get("/tasks/own")).html
        assert "/tasks/~sale/change" in (await browser.get("/tasks/~sale")).html


async def test_who_may_only_read_is_offered_no_change(world: DeskWorld) -> None:
    async with browsing(world, token(world, Scope.READ)) as browser:
        page = await browser.get("/tasks/~sale?if=1")
        assert page.status == 200
        assert "/change" not in page.html
        assert "Change the texts" not in page.text
        assert "Who changed what" not in page.text
        assert (await browser.confirm("/tasks/~sale/message", {"body": "x"})).status == 403
        assert (await browser.confirm("/tasks/~sale/change", {"do": "pause"})).status == 403


async def test_hostile_texts_are_shown_as_text(world: DeskWorld) -> None:
    hostile = "</textarea><script>alert(1)</script>"
    world.submit(
        "evil", message={"title": hostile, "body": hostile, "image": hostile, "locales": {hostile: {"title": 1}}}
    )
    async with browsing(world) as browser:
        page = await browser.get("/tasks/evil")
        assert page.status == 200
        assert "<script>alert" not in page.html
        assert hostile in page.text


# ------------------------------------------------------------------------------ what is changed


@pytest.mark.parametrize("name", ACTIONS)
async def test_action_is_previewed_then_done_and_audited(world: DeskWorld, name: str) -> None:
    fields, title, done, (field, value) = ACTIONS[name]
    before = sale(world)
    async with browsing(world) as browser:
        plan = await browser.send("/tasks/sale/change", fields)
        assert title in plan.text
        assert sale(world) == before
        assert done in await changed(browser, fields)
        assert getattr(sale(world), field) == value
        page = await browser.get("/tasks/sale")
        assert "user:local" in page.text
    entry = next(iter(world.client.audit(1)))
    assert (entry.by, entry.task) == ("user:local", "sale")


async def test_plan_of_a_task_is_shown_again_once_its_weight_or_text_is_another(world: DeskWorld) -> None:
    change, message = {"do": "set", "weight": "4"}, {"body": "Mine"}
    async with browsing(world) as browser:
        plans = [
            await browser.send(f"/tasks/sale/{form}", given)
            for form, given in (("change", change), ("message", message))
        ]
        world.client.set_many(TaskFilter(ids=("sale",)), Changes(weight=9.0))
        world.client.edit_message("sale", {"title": "Sale", "body": "Theirs"})
        again = await browser.send("/tasks/sale/change", plans[0].hidden)
        assert "Somebody else has changed this" in again.text
        assert "sale: weight 9 → 4" in again.text
        again = await browser.send("/tasks/sale/message", plans[1].hidden)
        assert "body: Theirs → Mine" in again.text
        assert (sale(world).weight, world.client.message("sale")["body"]) == (9.0, "Theirs")
        assert "Changed the message" in (await browser.send("/tasks/sale/message", again.hidden)).text


async def test_resume_ends_a_pause(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        await changed(browser, {"do": "pause"})
        assert "Resumed" in (await browser.get("/tasks/sale")).text
        await changed(browser, {"do": "resume"})
        assert sale(world).state == "running"
        again = await browser.send("/tasks/sale/change", {"do": "resume"})
        assert "Task sale is not paused. Nothing was changed." in again.text
        world.submit("later", start_at=1_700_086_400.0)
        later = await browser.send("/tasks/later/change", {"do": "resume"})
        assert "Task later is not paused: it starts at 2023-11-15 22:13:20 UTC." in later.text


async def test_message_is_edited_by_its_texts_and_keeps_the_rest(world: DeskWorld) -> None:
    fields = {"title": "New", "body": "50 % off\r\nfor you", "title de": "Neu", "body de": "50 % off\r\nfor you"}
    async with browsing(world) as browser:
        plan = await browser.send("/tasks/sale/message", fields)
        assert "title: Sale → New" in plan.text
        assert "title de: Ausverkauf → Neu" in plan.text
        assert "body" not in plan.text
        assert "Targets that would get it: 50." in plan.text
        assert world.client.message("sale")["title"] == "Sale"
        assert "Changed the message" in (await browser.confirm("/tasks/sale/message", fields)).text
    locales = {"de": {"title": "Neu"}, "fr": {"body": "Soldes"}}
    assert world.client.message("sale") == {**MESSAGE, "title": "New", "locales": locales}
    assert next(iter(world.client.audit(1))).by == "user:local"


async def test_text_of_several_lines_stays_so_through_the_plan(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        plan = await browser.send("/tasks/sale/message", {"body": "one\r\n\r\ntwo"})
        assert 'name="body" value="one"' in plan.html
        await browser.confirm("/tasks/sale/message", {"body": ["one", "", "two"]})
    assert world.client.message("sale")["body"] == "one\n\ntwo"


async def test_plan_that_is_confirmed_after_the_task_has_ended_says_so(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        await browser.send("/tasks/sale/change", {"do": "pause"})
        await browser.send("/tasks/sale/message", {"body": "x"})
        world.service.finish("sale")
        world.service.fold()
        page = await browser.confirm("/tasks/sale/change", {"do": "pause"})
        assert page.status == 409
        assert "Task sale is completed and accepts no more changes. Nothing was changed." in page.text
        page = await browser.confirm("/tasks/sale/message", {"body": "x"})
        assert page.status == 409
        assert "Task sale is completed, and its message is not kept. Nothing was changed." in page.text


async def test_number_of_more_than_a_million_targets_is_typed(
    world: DeskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.console.page.TYPED_TARGETS", 49)
    async with browsing(world) as browser:
        assert "Type 50 to go on" in await changed(browser, {"do": "cancel"})
        assert sale(world).state == "running"
        assert "Cancelled task sale." in await changed(browser, {"do": "cancel", "shown": "50", "typed": "50"})
