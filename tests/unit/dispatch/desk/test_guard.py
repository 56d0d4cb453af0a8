"""Every method of the desk names an action, which needs a scope and knowledge of keys."""

import inspect
from collections.abc import Iterator

import pytest

from dispatcher.access.actions import ACTIONS, Action
from dispatcher.access.principal import Principal, Scope
from dispatcher.model.errors import FairlaneError, Forbidden, NotReady, Refused
from producers.desk.access_book import CHANGES_S, READS_S
from producers.desk.acting import Acting
from producers.desk.guard import action, check_right
from producers.desk.letter_desk import LetterDesk
from producers.desk.task_desk import TaskDesk
from tests.unit.dispatch.desk.desk_world import DeskWorld

DESKS = (TaskDesk, LetterDesk)
GRANTED = {
    Scope.SUBMIT: {"tasks.submit", "tasks.preview"},
    Scope.READ: {
        *("tasks.list", "tasks.show", "tasks.why", "tasks.failures", "tasks.outcomes", "tasks.events"),
        *("letters.list", "invalid.list"),
    },
    Scope.CONTROL: {"tasks.set", "tasks.cancel", "tasks.change", "letters.replay", "letters.drop"},
}
"""The actions that each scope allows."""


def who(*scopes: Scope, app: str = "shop") -> Principal:
    return Principal(kind="key", name="k", app=app, scopes=frozenset(scopes))


def is_allowed(principal: Principal, name: str) -> bool:
    try:
        check_right(principal, name)
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize("app", ["shop", ""])
@pytest.mark.parametrize("scope", [Scope.SUBMIT, Scope.READ, Scope.CONTROL])
def test_scope_allows_its_actions_and_no_other(scope: Scope, app: str) -> None:
    assert {name for name in ACTIONS if is_allowed(who(scope, app=app), name)} == GRANTED[scope]


def test_operator_may_do_everything() -> None:
    assert {name for name in ACTIONS if is_allowed(who(Scope.OPERATOR, app=""), name)} == ACTIONS.keys()


def test_principal_of_an_app_may_not_operate_the_service_whatever_its_scopes() -> None:
    everything = who(*Scope)
    assert {name for name in ACTIONS if is_allowed(everything, name)} == set().union(*GRANTED.values())


def test_refusal_names_the_scope_that_is_missing() -> None:
    with pytest.raises(Forbidden, match="needs the scope control; the key k has read"):
        check_right(who(Scope.READ), "tasks.cancel")


def guarded_methods() -> Iterator[tuple[str, str]]:
    for desk in DESKS:
        for name, method in inspect.getmembers(desk, inspect.isfunction):
            if name in vars(desk) and not name.startswith("_"):
                yield f"{desk.__name__}.{name}", getattr(method, "action", "")


def test_every_public_method_of_a_desk_stands_for_an_action() -> None:
    assert [method for method, name in guarded_methods() if name not in ACTIONS] == []


def test_method_whose_action_is_not_in_the_table_cannot_be_defined() -> None:
    with pytest.raises(KeyError):
        action("tasks.steal")


class Desk(Acting):
    def __init__(self, age_s: float = 0.0, *scopes: Scope) -> None:
        self.principal = who(*(scopes or Scope), app="")
        self.age_s = age_s

    def check_age(self, action: Action) -> None:
        if self.age_s > (CHANGES_S if action.is_change else READS_S):
            raise NotReady("Too old.")

    def reword(self, error: Exception) -> None:
        assert isinstance(error, FairlaneError)
        error.cause = error.cause.replace("shop--", "")

    @action("tasks.set")
    def change(self, task: str) -> None:
        """Change a task."""
        raise Refused(f"Task {task} is not changed.")


def test_method_does_not_run_without_the_right() -> None:
    with pytest.raises(Forbidden):
        Desk(0.0, Scope.READ).change("t")


def test_error_leaves_in_the_words_of_the_principal() -> None:
    with pytest.raises(Refused) as refused:
        Desk().change("shop--t")
    assert refused.value.cause == "Task t is not changed."


def test_only_what_changes_nothing_is_answered_from_an_older_copy_of_keys(world: DeskWorld) -> None:
    world.service.clock.advance(CHANGES_S + 1)
    desk = world.desks().tasks
    refused = set[str]()
    for name, rights in ACTIONS.items():
        try:
            desk.check_age(rights)
        except NotReady:
            refused.add(name)
    changing = {name for name, rights in ACTIONS.items() if rights.is_audited} | {"tasks.submit", "tasks.preview"}
    assert refused == changing
