"""The page of apps: policies, keys, and what stops working."""

import re

import pytest

from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing


async def test_apps_are_shown_with_policy_use_and_keys(world: DeskWorld) -> None:
    world.submit("sale")
    world.client.limit_app("shop", tasks=5)
    world.client.access.create("shop", ["read"])
    async with browsing(world) as browser:
        seen = await browser.get("/apps")
    assert "news log high 1 any 7 d 00 h 100 0 0 0 -" in seen.text
    assert "shop log high 1 any 7 d 00 h 100 1 / 5 2 1 -" in seen.text


@pytest.mark.parametrize("page", ["/apps", "/limits"])
async def test_apps_are_shown_by_fifty(world: DeskWorld, page: str) -> None:
    for number in range(101):
        world.client.cap_app(f"app-{number:03d}", 5)
    async with browsing(world) as browser:
        seen = [await browser.get(f"{page}{query}") for query in ("", "?after=app-049", "?after=app-099", "?after=z")]
        csv = await browser.get(f"{page}?format=csv&table=apps")
    shown = [sorted(set(re.findall(r"app-\d{3}(?=</a>)", each.html))) for each in seen]
    assert [(names[0], len(names)) for names in shown[:3]] == [("app-000", 50), ("app-050", 50), ("app-100", 1)]
    assert [re.findall(r'href="\?after=([\w-]*)">(First|Next)', each.html) for each in seen] == [
        [("app-049", "Next")], [("", "First"), ("app-099", "Next")], [("", "First")], [("", "First")]
    ]  # fmt: skip
    assert [re.findall(r"(\d+) of 10\d apps", each.text) for each in (seen[0], seen[3])] == [["50"], ["0"]]
    assert csv.html.count("app-") == 101


async def test_new_key_is_shown_once_and_works(world: DeskWorld) -> None:
    fields = {"app": "shop", "scopes": ["read", "control"], "ends": "90d"}
    async with browsing(world) as browser:
        plan = await browser.send("/apps/key", fields)
        assert "A client that has it may read, control for app shop. It ends in 90 d 00 h." in plan.text
        assert not world.client.access.keys()
        done = await browser.confirm("/apps/key", fields)
        token = re.findall(r"flk_\w{12}_[\w-]{43}", done.html)
        world.book.follow()
        principal = world.book.principal(token[0])
        seen = [await browser.get(address) for address in ("/apps", "/audit", "/apps?format=csv&table=keys")]
        assert f"user:local shop Key {principal.name} none shop: control, read" in seen[1].text
    assert (principal.app, sorted(principal.scopes)) == ("shop", ["control", "read"])
    assert not any(token[0][17:] in each.html for each in seen)
    assert seen[2].html.startswith("id,app,scopes,state")


async def test_plan_of_an_operators_key_says_what_it_may(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        plan = await browser.send("/apps/key", {"app": "", "scopes": "operator", "ends": ""})
    assert (
        "may do everything, settings, keys and policies too for all apps. It is good until it is revoked" in plan.text
    )


async def test_plan_of_a_revocation_says_when_the_key_was_last_used(world: DeskWorld) -> None:
    new = world.client.access.create("shop", ["read"])
    async with browsing(world) as browser:
        assert "No use of its keys is known" in (await browser.send("/apps/revoke", {"id": new.id})).text
        world.connection.access.note_use(new.id, world.service.clock.wall_ms())
        plan = await browser.send("/apps/revoke", {"id": new.id})
        assert "It is for app shop: read." in plan.text
        assert re.search(r"It was used \d+", plan.text)
        assert world.client.access.keys()[0].state == "live"
        assert f"Key {new.id} is revoked" in (await browser.confirm("/apps/revoke", {"id": new.id})).text
        assert "shop: read, revoked" in (await browser.get("/audit?by=user:local")).text
        assert "that is not revoked" in (await browser.send("/apps/revoke", {"id": new.id})).text
    assert world.client.access.keys()[0].state == "revoked"


async def test_policy_is_changed_after_its_plan(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        page = await browser.get("/apps?app=shop")
        fields = {
            "app": "shop",
            **dict(re.findall(r'name="(channels|weight|targets|ttl_s|requests_s)" value="([^"]*)"', page.html)),
        }
        unchanged = await browser.send("/apps/policy", {**fields, "tier": "high"})
        assert "The policy is like this already" in unchanged.text
        fields |= {"tier": "low", "channels": "log fcm", "ttl_s": "1h", "targets": "1000"}
        plan = await browser.send("/apps/policy", fields)
        for line in ("tier: high → low", "channels: log → log, fcm", "targets: 1,099,511,627,776 → 1,000"):
            assert line in plan.text
        assert world.client.access.policy("shop").tier == "high"
        assert "The policy of app shop is changed" in (await browser.confirm("/apps/policy", fields)).text
        assert "tier=low" in (await browser.get("/audit?by=user:local&app=shop")).text
    policy = world.client.access.policy("shop")
    assert (policy.tier, policy.channels, policy.targets, policy.ttl_s) == ("low", ("log", "fcm"), 1_000, 3_600)


@pytest.mark.parametrize(
    ("form", "fields", "says"),
    [
        ("key", {"app": "shop"}, "scopes: is empty"),
        ("key", {"app": "shop", "scopes": "all"}, "scopes: has 'all'; the scopes are"),
        ("key", {"app": "shop", "scopes": "operator"}, "operator is for all apps"),
        ("key", {"app": "<b>", "scopes": "read"}, "app: is '<b>'"),
        ("key", {"app": "shop", "scopes": "read", "ends": "soon"}, "Ends: 'soon' is not a duration"),
        ("revoke", {"id": "nowhere"}, "There is no key nowhere"),
        ("revoke", {}, "Id is empty"),
        ("policy", {"app": "shop", "weight": "much"}, "Weight: is 'much'; it must be a number"),
        ("policy", {"app": "shop", "weight": "nan"}, "weight"),
        ("policy", {"app": "shop", "targets": "1.5"}, "Targets: is"),
        ("policy", {"app": "shop", "tier": "top"}, "tier: Invalid enum value 'top'"),
        ("policy", {"app": "", "weight": "2"}, "App is empty"),
    ],
)
async def test_wrong_input_says_why_and_changes_nothing(
    world: DeskWorld, form: str, fields: dict[str, str], says: str
) -> None:
    before = world.connection.access.read()
    async with browsing(world) as browser:
        planned = await browser.send(f"/apps/{form}", fields)
        seen = await browser.confirm(f"/apps/{form}", fields)
    assert (planned.status, seen.status) in ((422, 422), (404, 404))
    assert says in planned.text
    assert says in seen.text
    assert "<b>" not in seen.html.partition("<main")[2]
    assert world.connection.access.read() == before


async def test_no_app_says_what_would_be_here() -> None:
    async with browsing(DeskWorld(apps=())) as browser:
        seen = await browser.get("/apps")
    assert "fairlane app policy shop --channel fcm --tier medium" in seen.text
    assert "fairlane key create --app shop --scopes submit,read,control" in seen.text


async def test_apps_are_for_operators_alone(world: DeskWorld) -> None:
    new = world.client.access.create("shop", ["read", "control"])
    async with browsing(world, new.token) as browser:
        assert (await browser.get("/apps")).status == 403
        assert (await browser.confirm("/apps/key", {"app": "shop", "scopes": "read"})).status == 403
