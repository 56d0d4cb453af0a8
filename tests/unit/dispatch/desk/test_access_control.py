"""Keys and policies: made, listed, revoked, and known to the door."""

from collections.abc import Callable

import pytest

from dispatcher.access.keys import NewKey
from dispatcher.model.errors import InvalidInput, NoKey, NotFound, NotReady
from producers.control.access_control import MAX_ENDS_S
from tests.unit.dispatch.desk.desk_world import DeskWorld


def made(world: DeskWorld, app: str | None = "shop", scopes: str = "read", ends_in_s: float | None = None) -> NewKey:
    new = world.client.access.create(app, scopes.split(","), ends_in_s)
    world.book.follow()
    return new


def test_new_key_opens_the_door_for_its_app(world: DeskWorld) -> None:
    new = made(world, scopes="submit,read")
    principal = world.book.principal(new.token)
    assert (principal.app, sorted(principal.scopes)) == ("shop", ["read", "submit"])
    (state,) = world.client.access.keys()
    assert (state.id, state.state, state.used_ms) == (new.id, "live", 0)


def test_secret_is_nowhere_in_the_topic_or_the_view(world: DeskWorld) -> None:
    secret = made(world).token.split("_", 2)[2]
    assert all(secret.encode() not in body for body in world.service.log)
    assert secret not in str(world.connection.access.read())


def test_revoked_key_is_refused_and_stays_listed(world: DeskWorld) -> None:
    new, other = made(world), made(world, app=None)
    world.client.access.revoke(new.id)
    world.book.follow()
    with pytest.raises(NoKey, match=f"The key {new.id} was revoked"):
        world.book.principal(new.token)
    assert world.book.principal(other.token).app == ""
    states = world.client.access.keys()
    assert {state.id: state.state for state in states} == {new.id: "revoked", other.id: "live"}
    assert [state.id for state in world.client.access.keys("shop")] == [new.id]


def test_key_is_revoked_once(world: DeskWorld) -> None:
    new = made(world)
    first = world.client.access.revoke(new.id)
    world.service.clock.advance(5)
    assert world.client.access.revoke(new.id) == first
    assert [entry.field for entry in world.client.audit(2)] == [f"key:{new.id}"] * 2


@pytest.mark.parametrize("id_", ["", "nowhere", "0" * 12, "last", "*", "\x00"])
def test_unknown_key_is_not_revoked(world: DeskWorld, id_: str) -> None:
    made(world)
    with pytest.raises(NotFound, match="There is no key"):
        world.client.access.revoke(id_)


def test_view_that_is_being_rebuilt_undoes_no_policy_and_hides_no_key(world: DeskWorld) -> None:
    new, view, access = made(world), world.service.view, world.client.access
    view.command("DEL", view.keys.access)
    view.command("HSET", view.keys.epoch, "ready", 0)
    calls: list[Callable[[], object]] = [
        lambda: access.set_policy("shop", {"requests_s": 5}),
        lambda: access.policy("shop"),
        lambda: access.revoke(new.id),
        access.keys,
    ]
    for call in calls:
        with pytest.raises(NotReady):
            call()
    assert access.create("shop", ["read"]).token, "it needs nothing of the view"


def test_key_ends_when_it_was_said(world: DeskWorld) -> None:
    new = made(world, ends_in_s=90)
    world.service.clock.advance(90)
    world.book.follow()
    with pytest.raises(NoKey, match="has ended"):
        world.book.principal(new.token)
    assert world.client.access.keys()[0].state == "ended"


@pytest.mark.parametrize(
    "app", ["", " ", "a b", "a/b", "a:b", "-a", "*", "x" * 65, "a\n", "é", "a--b", "shop-partition-1"]
)
def test_app_that_may_have_no_key_is_refused(world: DeskWorld, app: str) -> None:
    """An empty one is a variable that was not set, and would be a key for all apps."""
    with pytest.raises(InvalidInput, match="app: "):
        made(world, app)
    assert world.client.access.keys() == []


@pytest.mark.parametrize("scopes", ["", "read,", "write", "READ", "read write"])
def test_unknown_scope_is_refused(world: DeskWorld, scopes: str) -> None:
    with pytest.raises(InvalidInput, match="scopes: "):
        made(world, scopes=scopes)
    assert world.client.access.keys() == []


@pytest.mark.parametrize("ends_in_s", [0, -1, MAX_ENDS_S + 1, 1e300, float("nan"), float("inf")])
def test_end_that_makes_no_sense_is_refused(world: DeskWorld, ends_in_s: float) -> None:
    with pytest.raises(InvalidInput, match="ends_in_s: is "):
        made(world, ends_in_s=ends_in_s)


def test_use_of_a_key_is_listed_to_the_minute(world: DeskWorld) -> None:
    new = made(world)
    world.book.principal(new.token)
    world.book.follow()
    assert world.client.access.keys()[0].used_ms == world.service.clock.wall_ms() // 60_000 * 60_000


def test_policy_keeps_the_bounds_that_are_not_named(world: DeskWorld) -> None:
    world.allow(tier="medium", channels=["http"])
    policy = world.allow(weight=2.0)
    assert (policy.tier, policy.channels, policy.weight) == ("medium", ("http",), 2.0)
    assert world.book.policy("shop") == policy
    assert world.book.policy("news") != policy


@pytest.mark.parametrize("app", ["", "a b", "*"])
def test_policy_of_no_app_is_refused(world: DeskWorld, app: str) -> None:
    with pytest.raises(InvalidInput, match="app: "):
        world.client.access.set_policy(app, {"weight": 2.0})
