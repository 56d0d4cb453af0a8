"""The limits page: what binds, and forms that show the effects first."""

import pytest

from dispatcher.model.errors import Unreachable
from dispatcher.model.flow_pause import PauseKind
from dispatcher.model.pools import Cap
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing
from tests.unit.web.console.test_tasks import fail, submit_half


@pytest.fixture
def busy(world: DeskWorld) -> DeskWorld:
    """Two apps share a capacity; each has a task of 1,000 targets."""
    world.client.set_capacity(100)
    for id_, app in (("sale", "shop"), ("flash", "news")):
        world.submit(id_, app, [f"{id_}-{number}" for number in range(1_000)])
    return world


async def test_cap_that_binds_is_named_and_marked(busy: DeskWorld) -> None:
    busy.client.cap_app("shop", 10)
    async with browsing(busy) as browser:
        seen = await browser.get("/limits")
    assert "Cap of app shop, 10/s It holds back what waits" in seen.text
    assert "shop 1 0/s 10/s holds back" in seen.text
    assert "log waits 0/s none 2 2,000" in seen.text
    assert "holds back" not in (seen.text.partition("Channels CSV")[2]).partition("Apps CSV")[0]


async def test_paused_app_is_marked_also_without_tasks(busy: DeskWorld) -> None:
    busy.client.change_service(lambda service: service.pause_flow("log", "shop"))
    busy.client.change_service(lambda service: service.pause_flow("log", "idle"))
    async with browsing(busy) as browser:
        apps = (await browser.get("/limits")).text.partition("Apps CSV")[2]
    for app in ("shop", "idle"):
        assert f"{app} paused on log 1" in apps


async def test_cap_of_an_app_on_a_channel_is_named_as_elsewhere(busy: DeskWorld) -> None:
    busy.client.cap_app("shop", 10, channel="log")
    async with browsing(busy) as browser:
        assert "Cap of app shop on channel log, 10/s" in (await browser.get("/limits")).text


async def test_link_beside_a_cap_fills_the_form_with_its_app_channel_and_rate(busy: DeskWorld) -> None:
    busy.client.cap_app("shop", 20, channel="log")
    async with browsing(busy) as browser:
        at = (await browser.get("/limits")).link("log")
        assert at == "/limits?channel=log#change"
        assert '"/limits?app=shop&amp;channel=log#change">log</a> 20/s' in (await browser.get("/limits")).html
        filled = (await browser.get("/limits?app=shop&channel=log")).html
        by_channel = filled[filled.rindex('action="/limits/channel"') :]
        for name, value in (("channel", "log"), ("app", "shop"), ("cap", "20")):
            assert f'name="{name}" value="{value}"' in by_channel.partition("</form>")[0]
        by_app = filled[filled.index('action="/limits/app"') :].partition("</form>")[0]
        assert 'name="app" value=""' in by_app
        assert 'name="cap" value=""' in by_app


async def test_forms_have_what_is_set_and_change_what_is_new_alone(busy: DeskWorld) -> None:
    busy.client.cap_app("shop", 20)
    busy.client.limit_app("shop", tasks=7)
    busy.client.pause_channel("log", app="shop", reason="legal")
    busy.client.change_service(lambda service: service.cap_quota("project", Cap(600), "request"))
    busy.client.change_service(lambda service: service.join_quota("project", "log", "news"))
    async with browsing(busy) as browser:
        by_app = (
            (await browser.get("/limits?app=shop")).html.rpartition('action="/limits/app"')[2].partition("</form>")[0]
        )
        given = {"app": "shop", "cap": "20", "weight": "1", "tasks": "7", "targets": ""}
        for name, value in given.items():
            assert f'name="{name}" value="{value}"' in by_app
        plan = await browser.send("/limits/app", {**given, "cap": "30"})
        assert "Set a cap of 30/s for app shop Cap of app shop: 20/s → 30/s This concerns" in plan.text
        paused = await browser.get("/limits?app=shop&channel=log")
        assert "The channel is not paused. App shop is paused on it: hand, legal." in paused.text
        group = (await browser.get("/limits?quota=project")).html.rpartition('action="/limits/quota"')[2]
        assert 'name="cap" value="600"' in group
        assert '<option value="request" selected>' in group
        left = {"quota": "project", "joins": "false", "channel": "log", "app": "news"}
        assert (
            "Remove app news on channel log from its quota group" in (await browser.confirm("/limits/quota", left)).text
        )
    assert not busy.client.globals().quotas


async def test_form_of_what_holds_back_begins_with_its_end_and_leads_back_to_the_task(busy: DeskWorld) -> None:
    busy.client.cap_app("shop", 20, channel="log")
    busy.client.pause_channel("log", app="shop")
    async with browsing(busy) as browser:
        form = (await browser.get("/limits?app=shop&channel=log&task=sale")).html.partition('id="change"')[2]
        assert form.index("Resume app shop on channel log") < form.index("Remove the cap of app shop on channel log")
        fields = {"app": "shop", "channel": "log", "task": "sale"}
        for change in ({"paused": "false"}, {"cap": "none"}):
            plan = await browser.send("/limits/channel", fields | change)
            done = await browser.send("/limits/channel", plan.hidden)
            assert done.link("See task sale") == "/tasks/sale"
        assert not busy.client.globals().caps
        assert not busy.client.globals().flow_pauses
        left = (await browser.get("/limits?app=shop&channel=log")).html
        assert "Resume app shop" not in left
        assert "Remove the cap" not in left


async def test_channel_whose_tries_fail_is_marked_as_on_the_overview(busy: DeskWorld) -> None:
    fail(busy, "sale")
    async with browsing(busy) as browser:
        for page in ("/limits", "/"):
            assert " log failing " in (await browser.get(page)).text


async def test_announced_targets_are_told_from_those_that_wait(busy: DeskWorld) -> None:
    busy.client.limit_app("shop", targets=9_000)
    submit_half(busy, expected_targets=500)
    async with browsing(busy) as browser:
        for page in ("/limits", "/apps"):
            assert "1,000 + 500 announced / 9,000" in (await browser.get(page)).text, page


async def test_link_of_a_paused_app_fills_the_form_with_its_channel(busy: DeskWorld) -> None:
    busy.client.pause_channel("log", app="shop")
    async with browsing(busy) as browser:
        seen = await browser.get("/limits")
    assert seen.link("App shop is paused on channel log") == "/limits?app=shop&channel=log#change"


async def test_cap_that_is_filled_in_is_left_alone_by_a_pause(busy: DeskWorld) -> None:
    fields = {"channel": "log", "app": "shop", "cap": "20", "paused": "true"}
    async with browsing(busy) as browser:
        await browser.confirm("/limits/channel", fields)
    assert not busy.client.globals().caps


async def test_pauses_limits_and_quota_groups_are_shown(busy: DeskWorld) -> None:
    busy.client.pause_channel("log", app="shop", reason="legal")
    busy.client.limit_app("shop", tasks=1)
    busy.client.change_service(lambda service: service.cap_quota("project", Cap(600), "request"))
    busy.client.change_service(lambda service: service.join_quota("project", "log", "news"))
    async with browsing(busy) as browser:
        seen = await browser.get("/limits")
    for words in (
        "App shop is paused on channel log hand, legal",
        "1 / 1 at its limit",
        "project 600/s",
        "requests log/news",
    ):
        assert words in seen.text


CHANGES = [
    ("service", {"capacity": "200"}, "Capacity: 100/s → 200/s", ("Capacity", "200")),
    ("service", {"capacity": "none"}, "Capacity: 100/s → none", ("Capacity", "none")),
    (
        "service",
        {"high": "5", "medium": "3", "low": "1"},
        "Weight of high: 6 → 5",
        ("Weights of the tiers", "high=5 medium=3 low=1"),
    ),
    ("service", {"sharing": "apps"}, "Tiers are shared by: tasks → apps", ("Sharing", "apps")),
    (
        "channel",
        {"channel": "log", "cap": "50:20"},
        "Cap of channel log: none → 50/s with a burst of 20",
        ("Cap of channel log", "50:20"),
    ),
    ("channel", {"channel": "log", "paused": "true"}, "Channel log: running → paused", ("Channel log paused", "yes")),
    (
        "channel",
        {"channel": "log", "app": "shop", "paused": "true", "for_s": "10m", "reason": "legal"},
        "App shop on channel log: running → paused (hand, legal)",
        ("App shop paused on channel log", "by hand, legal"),
    ),
    (
        "channel",
        {"channel": "log", "app": "shop", "cap": "5"},
        "Cap of app shop on channel log: none → 5/s",
        ("Cap of app shop on channel log", "5"),
    ),
    (
        "app",
        {"app": "shop", "cap": "10", "weight": "", "tasks": "7", "targets": ""},
        "Limit of tasks of app shop: none → 7",
        ("Limit of tasks of app shop", "7"),
    ),
    ("app", {"app": "shop", "weight": "2"}, "Weight of app shop: 1 → 2", ("Weight of app shop", "2")),
    (
        "quota",
        {"quota": "project", "cap": "600", "unit": "request"},
        "Cap of quota project: none → 600/s Unit of quota group project: target → request",
        ("Cap of quota project", "600"),
    ),
    (
        "quota",
        {"quota": "project", "joins": "true", "channel": "log", "app": "news"},
        "Quota group of app news on channel log: none → project",
        ("Quota group of app news on channel log", "project"),
    ),
]


@pytest.mark.parametrize(("form", "fields", "line", "entry"), CHANGES)
async def test_form_shows_what_it_would_change_and_then_does_it(
    busy: DeskWorld, form: str, fields: dict[str, str], line: str, entry: tuple[str, str]
) -> None:
    before = busy.client.globals()
    async with browsing(busy) as browser:
        plan = await browser.send(f"/limits/{form}", fields)
        assert (plan.status, line in plan.text) == (200, True), plan.text
        assert busy.client.globals() == before
        done = await browser.send(f"/limits/{form}", plan.hidden)
        assert "this is done" in done.text
        audit = await browser.get("/audit?by=user:local")
    assert busy.client.globals() != before
    assert f"user:local {fields.get('app', '-')} {entry[0]}" in audit.text
    assert entry[1] in audit.text


async def test_plan_is_shown_again_once_somebody_else_has_changed_what_it_changes(busy: DeskWorld) -> None:
    """A form has all fields of the service: it would have set the capacity back without a word."""
    form = {"capacity": "100", "high": "8", "medium": "3", "low": "1", "sharing": "tasks"}
    async with browsing(busy) as browser:
        plan = await browser.send("/limits/service", form)
        busy.client.set_capacity(50)
        again = await browser.send("/limits/service", plan.hidden)
        assert "Somebody else has changed this since it was shown. It is not done yet" in again.text
        assert "Capacity: 50/s → 100/s" in again.text
        assert busy.client.globals().tier_weights["high"] == 6
        done = await browser.send("/limits/service", again.hidden)
    assert "this is done" in done.text
    assert (busy.client.globals().capacity, busy.client.globals().tier_weights["high"]) == (100, 8)


async def test_change_whose_receipt_did_not_come_may_be_done(busy: DeskWorld) -> None:
    busy.service.fail_at("append GlobalChange", Unreachable("Pulsar did not answer in time."))
    async with browsing(busy) as browser:
        page = await browser.confirm("/limits/service", {"capacity": "50"})
        assert page.status == 503
        assert "It is not known whether this was done" in page.text
        page = await browser.confirm("/limits/service", {"capacity": "x"})
        assert "This was not done" in page.text


async def test_plan_shows_which_tasks_would_end_at_another_time(busy: DeskWorld) -> None:
    async with browsing(busy) as browser:
        plan = await browser.send("/limits/channel", {"channel": "log", "paused": "true"})
    assert "This concerns 2 live tasks with 2,000 waiting targets. 2 tasks would end at another time:" in plan.text
    assert "no end" in plan.text


async def test_resumed_flow_sends_again(busy: DeskWorld) -> None:
    busy.client.pause_channel("log", app="shop")
    fields = {"channel": "log", "app": "shop", "paused": "false"}
    async with browsing(busy) as browser:
        plan = await browser.send("/limits/channel", fields)
        assert f"paused ({PauseKind.HAND}) → running" in plan.text
        await browser.confirm("/limits/channel", fields)
    assert not busy.client.globals().flow_pauses


async def test_resume_of_what_is_not_paused_leads_to_what_is(busy: DeskWorld) -> None:
    busy.client.pause_channel("log", app="shop")
    async with browsing(busy) as browser:
        seen = await browser.send("/limits/channel", {"channel": "log", "paused": "false"})
        assert "Channel log is not paused, but of its apps are paused: shop." in seen.text
        assert seen.link("Open the form") == "/limits?app=shop&channel=log#change"
        assert "paused=" not in seen.text
        assert '<input type="hidden" name="paused" value="false">' in seen.html
        busy.client.pause_channel("log")
        seen = await browser.send("/limits/channel", {"channel": "log", "app": "news", "paused": "false"})
        assert "App news is not paused on channel log itself, but the whole channel is paused." in seen.text
        assert seen.link("Open the form") == "/limits?channel=log#change"


@pytest.mark.parametrize(
    ("fields", "title", "line"),
    [
        ({"channel": "log", "app": "shop", "cap": "none"}, "Remove the cap of app shop on channel log", "20/s → none"),
        ({"channel": "log", "cap": "30"}, "Set a cap of 30/s for channel log", "none → 30/s"),
        ({"app": "shop", "cap": "0"}, "Remove the cap of app shop", "20/s → none"),
        ({"app": "shop", "cap": "30", "tasks": "5"}, "Change app shop", "20/s → 30/s"),
    ],
)
async def test_plan_is_named_after_its_change(busy: DeskWorld, fields: dict[str, str], title: str, line: str) -> None:
    busy.client.cap_app("shop", 20)
    busy.client.cap_app("shop", 20, channel="log")
    async with browsing(busy) as browser:
        plan = await browser.send(f"/limits/{'channel' if 'channel' in fields else 'app'}", fields)
    assert f"<h1>{title}</h1>" in plan.html
    assert line in plan.text


async def test_more_than_ten_tasks_are_typed(busy: DeskWorld) -> None:
    for number in range(10):
        busy.submit(f"more-{number}")
    fields = {"channel": "log", "paused": "true"}
    async with browsing(busy) as browser:
        assert "Type 12 to go on" in (await browser.send("/limits/channel", fields)).text
        for typed in ({}, {"typed": "11", "shown": "12"}, {"typed": "1", "shown": "1"}):
            seen = await browser.confirm("/limits/channel", {**fields, **typed})
            assert "That is another number" in seen.text
        assert not busy.client.globals().paused_channels
        busy.submit("one-more")  # meanwhile
        seen = await browser.confirm("/limits/channel", {**fields, "typed": "12", "shown": "12"})
    assert "this is done" in seen.text
    assert busy.client.globals().paused_channels


@pytest.mark.parametrize(
    ("form", "fields", "says"),
    [
        ("service", {"capacity": "fast"}, "is 'fast'; write RATE or RATE:BURST"),
        ("service", {"capacity": "100"}, "this is set already"),
        ("service", {"high": "x", "medium": "3", "low": "1"}, "Tiers: is ''; it must be a number"),
        ("service", {"high": "nan", "medium": "3", "low": "1"}, "high"),
        ("service", {"sharing": "luck"}, "sharing: is 'luck'; it must be tasks or apps"),
        ("channel", {"channel": "<b>", "paused": "true"}, "channel: is '<b>'"),
        ("channel", {"channel": "log", "paused": "true", "for_s": "10m"}, "Only the pause of one app has an end"),
        (
            "channel",
            {"channel": "log", "app": "shop", "paused": "true", "for_s": "soon"},
            "Pause for: 'soon' is not a duration",
        ),
        ("channel", {"channel": "log", "cap": ""}, "this is set already"),
        ("app", {"app": "shop"}, "this is set already"),
        ("app", {"app": "shop", "tasks": "2.5"}, "it must be a whole number"),
        ("quota", {"quota": "<b>", "cap": "5"}, "group: is '<b>'"),
        ("quota", {"quota": "project", "cap": "fast"}, "is 'fast'"),
        ("quota", {"quota": "project", "cap": "5", "unit": "luck"}, "'luck'"),
        ("quota", {"quota": "project", "joins": "true", "channel": "log", "app": ""}, "App is empty"),
    ],
)
async def test_wrong_input_says_why_and_keeps_what_was_typed(
    busy: DeskWorld, form: str, fields: dict[str, str], says: str
) -> None:
    before = busy.client.globals()
    async with browsing(busy) as browser:
        seen = await browser.confirm(f"/limits/{form}", fields)
    assert seen.status == 422
    assert says in seen.text
    assert "<b>" not in seen.html.partition("<main")[2]
    for name, value in fields.items():
        assert f'name="{name}" value="{value}"'.replace("<b>", "&lt;b&gt;") in seen.html
    assert busy.client.globals() == before


async def test_empty_service_says_what_would_be_here() -> None:
    async with browsing(DeskWorld(apps=())) as browser:
        seen = await browser.get("/limits")
    assert "No worker runs: nothing is sent" in seen.text
    for command in ("fairlane channel cap fcm 5000", "fairlane app limit shop --tasks 50", "fairlane quota cap"):
        assert command in seen.text


async def test_every_table_is_csv(busy: DeskWorld) -> None:
    async with browsing(busy) as browser:
        for table, column in (("tiers", "tier"), ("channels", "channel"), ("apps", "app"), ("quotas", "")):
            assert (await browser.get(f"/limits?table={table}&format=csv")).html.startswith(column)


async def test_limits_are_for_operators_alone(busy: DeskWorld) -> None:
    new = busy.client.access.create("shop", ["read", "control"])
    async with browsing(busy, new.token) as browser:
        assert (await browser.get("/limits")).status == 403
        assert (await browser.confirm("/limits/service", {"capacity": "1"})).status == 403
    assert busy.client.globals().capacity == 100
