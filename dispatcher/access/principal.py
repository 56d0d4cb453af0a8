"""Who asks: a service with a key, a user of the console, or an operator at a command line."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from dispatcher.model.errors import InvalidInput

MAX_BY_LENGTH = 100
"""Characters of `by` in a record, and of a request's id."""
OWN_ID = "--"
"""Between an app and the id that its key gave, in the internal id of a task. Apps with it in their name get no keys."""


class Scope(StrEnum):
    """A right of a principal. The values are those of the command line and of stored keys."""

    SUBMIT = "submit"
    """Submit tasks."""
    READ = "read"
    """Read tasks and their outcomes."""
    CONTROL = "control"
    """Change and cancel tasks, and send dead letters again."""
    OPERATOR = "operator"
    """Everything, of every app: settings of the service, keys and policies too."""


class Caller(NamedTuple):
    """Who makes a change, as its record names it."""

    by: str = ""
    """`key:ID`, `user:NAME`, `cli:USER@HOST` or `client:USER@HOST`. Empty: a worker, by itself."""
    request: str = ""
    """Id of the HTTP request; empty if there was none."""
    own_ids: str = ""
    """The beginning of an id that is made for a task without one."""

    @classmethod
    def named(cls, kind: str, name: str, request: str = "") -> "Caller":
        """Return a caller whose texts fit into a record."""
        return cls(printable(f"{kind}:{name}"), printable(request))


def printable(text: str) -> str:
    """Return the text without characters that would not show, in the length that a record has for it."""
    return "".join(mark for mark in text if mark.isprintable())[:MAX_BY_LENGTH]


NOBODY = Caller()
"""The caller of what a worker does by itself."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks the door, with what rights."""

    kind: str
    """`key`, `user` or `cli`."""
    name: str
    """Id of the key, or name of the user."""
    scopes: frozenset[Scope]
    app: str = ""
    """The app for which it acts: nothing of other apps exists for it. Empty: every app."""

    def may(self, scope: Scope) -> bool:
        """Return whether the principal has a right."""
        return scope in self.scopes or Scope.OPERATOR in self.scopes

    def caller(self, request: str = "") -> Caller:
        """Return the name for the records of its changes and tasks."""
        return Caller.named(self.kind, self.name, request)._replace(own_ids=self.app and f"{self.app}{OWN_ID}")


def scopes_of(names: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes of these names. Raises InvalidInput for an unknown one, or if there is none."""
    given = [name.strip() for name in names]
    for name in given:
        if name not in tuple(Scope):
            raise InvalidInput(f"scopes: has {name!r}; the scopes are {', '.join(Scope)}.")
    if not given:
        raise InvalidInput("scopes: is empty.", f"Name at least one of {', '.join(Scope)}.")
    return frozenset(map(Scope, given))


def check_rights(app: str, scopes: frozenset[Scope]) -> None:
    """Raise InvalidInput for rights that no key or user may have."""
    if OWN_ID in app:
        raise InvalidInput(f"app: {app!r} contains {OWN_ID}, which divides app and id in the ids of tasks.")
    if app and Scope.OPERATOR in scopes:
        raise InvalidInput(
            f"scopes: operator is for all apps, and app {app} was named.", "Leave out the app, or the scope operator."
        )
