"""The whole service at the desk: settings, workers, keys, policies, audit. For operators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from backends.redis.registry.audit import AuditEntry
from backends.redis.registry.figures import FigureRow
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.keys import AccessKey, NewKey
from dispatcher.model.pools import CapState
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from producers.control.access_control import KeyState
from producers.control.service_controls import ServiceControls
from producers.desk.acting import Acting
from producers.desk.guard import action

Change = Callable[[ServiceControls], None]


class Work(NamedTuple):
    """Settings and work of the service at one moment."""

    settings: Globals
    tasks: list[TaskView]
    """The live tasks, as the board has them."""
    states: Mapping[str, CapState]
    """States of caps, by pool."""
    workers: list[WorkerBeat]


class OperatorDesk(Acting):
    """The service, for a principal of all apps. Raises as PushClient does."""

    @action("service.show")
    def service(self) -> Globals:
        """Return the settings of the whole service."""
        return self._client.globals()

    @action("service.set")
    def set_service(self, change: Change) -> str:
        """Change settings. Return why they take effect only when Redis is back; empty if they are in force."""
        return self._client.change_service(change)

    @action("channel.show")
    def channel_work(self) -> Work:
        """Return what channels are shown of."""
        return self._work()

    @action("channel.set")
    def set_channel(self, change: Change) -> str:
        """Change a channel, as `set_service` does."""
        return self._client.change_service(change)

    @action("app.show")
    def app_work(self) -> Work:
        """Return what apps are shown of."""
        return self._work()

    @action("app.show")
    def policy(self, app: str) -> AppPolicy:
        """Return the policy of an app's keys."""
        return self._client.access.policy(app)

    @action("app.set")
    def set_app(self, change: Change) -> str:
        """Change an app, as `set_service` does."""
        return self._client.change_service(change)

    @action("app.set")
    def set_policy(self, app: str, changes: Mapping[str, Any]) -> AppPolicy:
        """Change some bounds of an app's policy."""
        return self._client.access.set_policy(app, changes)

    @action("workers.list")
    def workers(self) -> list[WorkerBeat]:
        """Return the live workers."""
        return self._client.workers()

    @action("signals.show")
    def signal_work(self) -> Work:
        """Return what signals are computed of. Raises NotReady while the view is being rebuilt."""
        self._client.check_counts()
        return self._work()

    @action("signals.show")
    def history(self, span_s: float) -> list[FigureRow]:
        """Return rates and backlog of the tiers every 10 s, for the last seconds (24 h at most), the oldest first."""
        return self._connection.figures.rows(span_s)

    @action("keys.list")
    def keys(self, app: str | None) -> list[KeyState]:
        """Return keys, newest first, without their secrets."""
        return self._client.access.keys(app)

    @action("keys.create")
    def create_key(self, app: str | None, scopes: Sequence[str], ends_in_s: float | None) -> NewKey:
        """Make a key. Its secret is in the answer, and never shown again."""
        return self._client.access.create(app, scopes, ends_in_s)

    @action("keys.revoke")
    def revoke_key(self, id_: str) -> AccessKey:
        """Revoke a key. Raises NotFound."""
        return self._client.access.revoke(id_)

    @action("audit.list")
    def audit(self, limit: int, app: str | None) -> list[AuditEntry]:
        """Return the newest changes made by people and keys."""
        return list(self._client.audit(limit, app))

    def _work(self) -> Work:
        client = self._client
        return Work(client.globals(), self._board.live(), client.cap_states(), client.workers())
