"""Keys, users and policies of apps in the view, and when each key was last used. Only the door reads them."""

from collections.abc import Mapping
from typing import NamedTuple

from backends.redis.view import ViewPart
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.keys import AccessKey
from dispatcher.access.users import User
from dispatcher.model.service_settings import KEY, POLICY, USER, settings_of

_DEFAULT_POLICY = AppPolicy()
_MINUTE_MS = 60_000


class Access(NamedTuple):
    """All keys, policies and users at one moment."""

    keys: Mapping[str, AccessKey] = {}
    """Keys by id, those that have ended or were revoked too."""
    policies: Mapping[str, AppPolicy] = {}
    """Policies by app; an app without one has the defaults."""
    users: Mapping[str, User] = {}
    """Users by name, without those that were removed."""

    def policy(self, app: str) -> AppPolicy:
        """Return the policy of an app."""
        return self.policies.get(app, _DEFAULT_POLICY)


class AccessTable(ViewPart):
    """Keys and policies. All methods raise Unreachable when Redis is gone."""

    def last(self) -> str:
        """Return the position of the latest change; it differs after each. Empty: there never was one."""
        return (self._view.command("HGET", self._view.keys.access, "last") or b"").decode()

    def read(self) -> Access:
        """Return all keys, policies and users, without those that this version cannot read."""
        settings = list(settings_of(self._view.texts(self._view.keys.access)))
        keys = {setting.name: setting.value for setting in settings if setting.kind == KEY}
        policies = {setting.name: setting.value for setting in settings if setting.kind == POLICY}
        users = {setting.name: setting.value for setting in settings if setting.kind == USER and setting.value.scopes}
        return Access(keys, policies, users)

    def take_requests(self, app: str, maximum: int, count: int) -> tuple[int, int]:
        """Count requests of an app's keys. Return how many of them fit into its maximum in this second, and for how
        many ms they do."""
        taken, left_ms = self._view.call("take_requests", app, maximum, count)
        return int(taken), int(left_ms)

    def note_use(self, key: str, now_ms: int) -> None:
        """Store that a key was used, to the minute."""
        self._view.command("HSET", self._view.keys.key_uses, key, now_ms - now_ms % _MINUTE_MS)

    def last_uses(self) -> dict[str, int]:
        """Return when keys were last used (wall ms), by id. It is not kept when Redis is emptied."""
        return {key: int(used_ms) for key, used_ms in self._view.texts(self._view.keys.key_uses).items()}
