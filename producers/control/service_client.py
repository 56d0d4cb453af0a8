"""The part of the client that reads and changes the settings of the whole service."""

from collections.abc import Callable, Sequence
from functools import partial

from dispatcher.access.principal import Caller
from dispatcher.model.errors import InvalidInput
from dispatcher.model.pools import Cap, CapState
from dispatcher.model.service_settings import Setting, globals_after
from dispatcher.model.view import Globals
from producers.connection import Connection
from producers.control.change import StoredRecords, change_service, log_deferred
from producers.control.service_controls import Put, ServiceControls


class ServiceClient:
    """Reads and changes the settings that all tasks share."""

    def __init__(self, connection: Connection, caller: Caller) -> None:
        self._connection = connection
        self._services = partial(connection.services, caller)
        self._service = self._service_controls(self._store)

    def set_capacity(self, targets_per_s: int, burst: int = 0) -> None:
        """Set the targets/s of all workers together; 0: unlimited.

        burst: the number of targets sent at once; 0: a quarter of a second's worth.
        """
        self._service.set_capacity(targets_per_s, burst)

    def set_tiers(self, *, high: float, medium: float, low: float) -> None:
        """Set the weights by which the tiers share capacity; the defaults are 6, 3 and 1."""
        self._service.set_tiers(high, medium, low)

    def set_sharing(self, shared_by: str) -> None:
        """Set the unit that shares capacity within a tier: `tasks`, or `apps` and then the tasks of each app."""
        self._service.set_sharing(shared_by)

    def cap_channel(self, channel: str, targets_per_s: int, burst: int = 0) -> None:
        """Set the maximum targets/s of a channel over all tasks; 0: no cap."""
        self._service.cap_channel(channel, Cap(targets_per_s, burst))

    def pause_channel(
        self, channel: str, *, app: str | None = None, for_s: float | None = None, reason: str = ""
    ) -> None:
        """Stop sending on the channel until `resume_channel`.

        app: only this app's targets; then the pause may end by itself after `for_s` seconds, and have a reason.
        """
        if app is not None:
            self._service.pause_flow(channel, app, for_s, reason)
        elif for_s is not None or reason:
            raise InvalidInput("for_s, reason: only the pause of one app on a channel has an end and a reason.")
        else:
            self._service.pause_channel(channel, paused=True)

    def resume_channel(self, channel: str, *, app: str | None = None, confirm_dead: bool = False) -> None:
        """Resume sending on a paused channel.

        app: end the pause of this app on the channel, of any kind. confirm_dead: many of its targets are dead
        indeed; see ServiceControls.resume_flow.
        """
        if app is not None:
            self._service.resume_flow(channel, app, confirm_dead=confirm_dead)
        elif confirm_dead:
            raise InvalidInput("confirm_dead: only one app on a channel is suspected.", "Name the app.")
        else:
            self._service.pause_channel(channel, paused=False)

    def cap_app(self, app: str, targets_per_s: int, burst: int = 0, *, channel: str | None = None) -> None:
        """Set the maximum targets/s of an app, over all channels or on one channel; 0: no cap."""
        self._service.cap_app(app, Cap(targets_per_s, burst), channel)

    def weigh_app(self, app: str, weight: float) -> None:
        """Set an app's weight among the apps of a tier, used where apps share capacity. The default is 1."""
        self._service.weigh_app(app, weight)

    def limit_app(self, app: str, *, tasks: int | None = None, targets: int | None = None) -> None:
        """Set the maximum number of live tasks and of queued targets of an app (`*`: every app without its own limit).

        0: any number; None: unchanged. Submissions beyond the limit raise LimitReached; existing tasks stay.
        """
        self._service.limit_app(app, tasks, targets)

    def change_service(self, change: Callable[[ServiceControls], None]) -> str:
        """Make one or several of the changes above, all or none, in a function that receives the ServiceControls.

        Return why they take effect only when Redis is back; an empty text if they are in force. (The methods above log
        it as a warning.) Raises InvalidInput, also if nothing is changed; Unreachable if Pulsar is gone.
        """
        changes = list[Setting]()
        change(self._service_controls(changes.extend))
        if not changes:
            raise InvalidInput("There is nothing to change.", "Name at least one setting.")
        return self._changed(changes).lacks_redis

    def globals(self, after: Callable[[ServiceControls], None] | None = None) -> Globals:
        """Return the settings of the whole service.

        after: return them as they would be after a change; the change is not made.
        """
        changes = list[Setting]()
        if after is not None:
            after(self._service_controls(changes.extend))
        return globals_after(self._connection.registry.service.globals(), changes)

    def cap_states(self) -> dict[str, CapState]:
        """Return how much of each cap of one app on a channel, and of each quota group, may be used at present, by the
        name of its pool (`app_channel/APP/NAME`, `quota/GROUP`)."""
        return self._connection.cap_states()

    def _store(self, settings: Sequence[Setting]) -> None:
        log_deferred(self._changed(settings))

    def _changed(self, settings: Sequence[Setting]) -> StoredRecords:
        return change_service(self._services(), settings)

    def _service_controls(self, put: Put) -> ServiceControls:
        connection = self._connection
        return ServiceControls(put, connection.now_ms, connection.flow_entries, connection.tier_weights)
