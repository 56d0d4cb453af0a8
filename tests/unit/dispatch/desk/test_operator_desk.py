"""The whole service at the desk: operators get the client, and nobody else does."""

import pytest

from dispatcher.access.actions import ACTIONS
from dispatcher.access.principal import Scope
from dispatcher.model.errors import Forbidden, InvalidInput, NotReady
from dispatcher.model.pools import Cap
from producers.control.service_controls import ServiceControls
from producers.desk.access_book import CHANGES_S
from tests.unit.dispatch.desk.desk_world import DeskWorld

OPERATING = sorted(name for name, rights in ACTIONS.items() if rights.scope is Scope.OPERATOR)


@pytest.mark.parametrize("name", OPERATING)
def test_operator_alone_gets_the_client_for_an_action_of_operators(world: DeskWorld, name: str) -> None:
    assert world.operator().service.client(name).globals().capacity == 0
    with pytest.raises(Forbidden, match="needs the scope operator"):
        world.desks(scopes=Scope).service.client(name)
    with pytest.raises(Forbidden, match="needs the scope operator"):
        world.desks(scopes=Scope).service.live(name)


@pytest.mark.parametrize("name", [*sorted(ACTIONS.keys() - {*OPERATING}), "tasks.steal"])
def test_nobody_gets_the_client_for_another_action(world: DeskWorld, name: str) -> None:
    for desks in (world.operator(), world.desks(scopes=Scope)):
        with pytest.raises(KeyError):
            desks.service.client(name)


def test_operator_who_changes_something_needs_recent_knowledge_of_keys(world: DeskWorld) -> None:
    world.service.clock.advance(CHANGES_S + 1)
    world.operator().service.client("audit.list")
    with pytest.raises(NotReady):
        world.operator().service.client("service.set")


def test_change_of_the_service_names_the_key(world: DeskWorld) -> None:
    world.operator().service.client("service.set").change_service(lambda service: service.set_capacity(900))
    assert [(entry.by, entry.request, entry.field) for entry in world.audit()] == [("key:0p", "req-0", "capacity")]


def test_changes_of_the_service_are_made_all_or_none(world: DeskWorld) -> None:
    def change(service: ServiceControls) -> None:
        service.cap_channel("log", Cap(5))
        service.set_sharing("nobody")

    stored = len(world.service.log)
    with pytest.raises(InvalidInput, match="sharing: is 'nobody'"):
        world.client.change_service(change)
    with pytest.raises(InvalidInput, match="nothing to change"):
        world.client.change_service(lambda _: None)
    assert len(world.service.log) == stored


def test_tiers_that_are_not_named_keep_their_weights(world: DeskWorld) -> None:
    world.client.set_tiers(high=8, medium=4, low=2)
    world.client.change_service(lambda service: service.set_tiers(high=9))
    assert world.client.globals().tier_weights == {"high": 9.0, "medium": 4.0, "low": 2.0}


def test_view_that_lost_the_weights_of_tiers_resets_none(world: DeskWorld) -> None:
    world.client.set_tiers(high=8, medium=4, low=2)
    stored, view = len(world.service.log), world.service.view
    view.command("DEL", view.keys.globals)
    view.command("HSET", view.keys.epoch, "ready", 0)
    for ask in (world.client.change_service, world.client.globals):
        with pytest.raises(NotReady, match="weights of the other tiers"):
            ask(lambda service: service.set_tiers(high=9))
    view.command("DEL", view.keys.epoch)
    with pytest.raises(NotReady, match="weights of the other tiers"):
        world.client.change_service(lambda service: service.set_tiers(high=9))
    assert len(world.service.log) == stored
    world.client.set_tiers(high=9, medium=4, low=2)
    assert len(world.service.log) == stored + 1, "three weights need nothing of the view"
