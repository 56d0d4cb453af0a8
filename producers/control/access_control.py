"""Make and revoke keys, and set users and policies of apps: records of the control topic, as every change is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from backends.redis.epochs import REBUILD_STEP
from backends.redis.registry.access import Access, AccessTable
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.keys import AccessKey, NewKey
from dispatcher.access.principal import check_rights, scopes_of
from dispatcher.access.users import LOCAL_USER, User
from dispatcher.model.errors import InvalidInput, NotFound, NotReady
from dispatcher.model.service_settings import KEY, POLICY, USER, Setting
from producers.control.change import change_service, log_deferred
from producers.ports import Services

MAX_ENDS_S = 100 * 365 * 86_400
"""How far ahead a key may end."""


class KeyState(NamedTuple):
    """A key as it is listed."""

    id: str
    app: str
    """Empty: every app."""
    scopes: Sequence[str]
    state: str
    """live, ended or revoked."""
    created_ms: int
    ends_ms: int
    """Wall time from which it is refused; 0: never."""
    used_ms: int
    """Wall time of its last use, to the minute; 0 if none is known."""


class AccessControl:
    """Keys, users and policies. services: called on first use, since it connects. is_complete: whether the view is.

    Methods raise Unreachable, and all but `create` NotReady while the view is empty or being rebuilt: what it lacks
    would be lost by a change.
    """

    def __init__(
        self,
        services: Callable[[], Services],
        table: AccessTable,
        is_complete: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        self._services = services
        self._table = table
        self._is_complete = is_complete
        self._now_ms = now_ms

    def create(self, app: str | None, scopes: Iterable[str], ends_in_s: float | None = None) -> NewKey:
        """Make a key, whose secret is known now and never again. app: None for every app. Raises InvalidInput."""
        if ends_in_s is not None and not 0 < ends_in_s <= MAX_ENDS_S:
            raise InvalidInput(f"ends_in_s: is {ends_in_s:g}; it must be more than 0 and at most {MAX_ENDS_S:,}.")
        now_ms = self._now_ms()
        if app is not None:
            Setting.of(POLICY, AppPolicy(), app)  # checks the name, which is empty if a variable is not set
        ends_ms = 0 if ends_in_s is None else now_ms + round(ends_in_s * 1000)
        new = AccessKey.create(app or "", scopes_of(scopes), now_ms, ends_ms)
        self._store(Setting.of(KEY, new.key, new.id))
        return new

    def keys(self, app: str | None = None) -> list[KeyState]:
        """Return the keys, of every app or of one, newest first."""
        now_ms, uses = self._now_ms(), self._table.last_uses()
        states = [
            KeyState(id_, key.app, sorted(key.scopes), key.state(now_ms), key.created_ms, key.ends_ms, uses.get(id_, 0))
            for id_, key in self._read().keys.items()
            if app in (None, key.app)
        ]
        return sorted(states, key=lambda state: -state.created_ms)

    def revoke(self, id_: str) -> AccessKey:
        """Revoke a key: it is refused within a second. Raises NotFound."""
        key = self._read().keys.get(id_)
        if key is None:
            raise NotFound(f"There is no key {id_}.", "`fairlane key list` shows all.")
        revoked = key.revoked(self._now_ms())
        if revoked != key:
            self._store(Setting.of(KEY, revoked, id_))
        return revoked

    def policy(self, app: str) -> AppPolicy:
        """Return the policy of an app."""
        return self._read().policy(app)

    def policy_with(self, app: str, changes: Mapping[str, Any]) -> AppPolicy:
        """Return the policy of an app with other bounds. Raises InvalidInput."""
        return AppPolicy.of(msgspec.to_builtins(self.policy(app)) | dict(changes))

    def policies(self) -> Mapping[str, AppPolicy]:
        """Return the policies of the apps that have one; the others have the defaults."""
        return self._read().policies

    def set_policy(self, app: str, changes: Mapping[str, Any]) -> AppPolicy:
        """Change some bounds of an app's policy, and return it. Raises InvalidInput."""
        policy = self.policy_with(app, changes)
        self._store(Setting.of(POLICY, policy, app))
        return policy

    def users(self) -> Mapping[str, User]:
        """Return the users of the console by name."""
        return dict(sorted(self._read().users.items()))

    def set_user(self, name: str, scopes: Iterable[str], app: str | None = None) -> User:
        """Give a user of the console rights, in place of those it had. Raises InvalidInput."""
        if name == LOCAL_USER:
            raise InvalidInput(f"user: {name!r} is who signs in by a link from the terminal.", "Choose another name.")
        if app is not None:
            Setting.of(POLICY, AppPolicy(), app)
        user = User(scopes=scopes_of(scopes), app=app or "")
        check_rights(user.app, user.scopes)
        self._store(Setting.of(USER, user, name))
        return user

    def remove_user(self, name: str) -> None:
        """Take all rights from a user. Raises NotFound."""
        if name not in self._read().users:
            raise NotFound(f"There is no user {name}.", "`fairlane user list` shows all.")
        self._store(Setting.of(USER, User(), name))

    def _read(self) -> Access:
        was_complete, access = self._is_complete(), self._table.read()
        if not (was_complete and self._is_complete()):
            raise NotReady("The view in Redis is not complete, so keys and policies are not known.", REBUILD_STEP)
        return access

    def _store(self, setting: Setting) -> None:
        log_deferred(change_service(self._services(), [setting]))
