"""Hold a method of the desk to the table of actions."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from dispatcher.access.actions import ACTIONS
from dispatcher.access.principal import Principal
from dispatcher.model.errors import Forbidden
from producers.desk.acting import Acting

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound=Acting)


def action(name: str) -> Callable[[Callable[Concatenate[D, P], R]], Callable[Concatenate[D, P], R]]:
    """Let a method run only for principals who may do this. Raises KeyError for an action that is not in the table."""
    rights = ACTIONS[name]

    def guarded(method: Callable[Concatenate[D, P], R]) -> Callable[Concatenate[D, P], R]:
        @wraps(method)
        def checked(desk: D, /, *args: P.args, **kwargs: P.kwargs) -> R:
            check_right(desk.principal, name)
            desk.check_age(rights)
            try:
                return method(desk, *args, **kwargs)
            except Exception as error:
                desk.reword(error)
                raise

        checked.__dict__["action"] = name
        return checked

    return guarded


def check_right(principal: Principal, name: str) -> None:
    """Raise Forbidden unless the principal may do this."""
    rights = ACTIONS[name]
    if not principal.may(rights.scope) or (principal.app and not rights.in_app):
        has = ", ".join(sorted(principal.scopes))
        raise Forbidden(
            f"This needs the scope {rights.scope}; the {principal.kind} {principal.name} has {has}.",
            "Use a key that has it. An operator makes keys: `fairlane key create`.",
        )
