"""Live controls of the settings all tasks share: capacity, tiers, caps of channels and apps, admission limits."""

from collections.abc import Callable, Mapping
from functools import cache

from pydantic import TypeAdapter, ValidationError

from dispatcher.model import service_settings as fields
from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import NAME_RULE
from dispatcher.model.pools import pools_of
from dispatcher.model.service_settings import EVERY_APP, Cap
from dispatcher.model.task import MAX_TARGETS, Name
from dispatcher.model.tier import in_milli
from dispatcher.wire.control import FORMAT, GlobalChange
from producers.control.change import store
from producers.ports import Services

Put = Callable[[Mapping[str, str]], None]


def stored_by(services: Callable[[], Services]) -> Put:
    """Return a function that writes changes to the control topic and to the registry.

    Workers follow within 200 ms. services: called on first use, since it connects. Raises Unreachable.
    """

    def put(values: Mapping[str, str]) -> None:
        there = services()
        now_ms = there.clock.wall_ms()
        store(there, [GlobalChange(FORMAT, field, text, now_ms) for field, text in values.items()])

    return put


class ServiceControls:
    """Changes the settings of the whole service. put: takes the changed fields and their texts.

    All methods raise InvalidInput and the exceptions of `put`.
    """

    def __init__(self, put: Put) -> None:
        self._put = put

    def set_capacity(self, targets_per_s: int, burst: int = 0) -> None:
        """Set the targets/s of all workers together; 0: unlimited.

        burst: the number of targets sent at once; 0: a quarter of a second's worth.
        """
        self._put({fields.CAPACITY: Cap(targets_per_s, burst).checked("capacity").text})

    def set_tiers(self, high: float, medium: float, low: float) -> None:
        """Set the weights of the tiers, 0.001 to 1,000 each."""
        weights = {"high": high, "medium": medium, "low": low}
        self._put({fields.TIER_WEIGHTS: ":".join(str(in_milli(name, weight)) for name, weight in weights.items())})

    def set_sharing(self, shared_by: str) -> None:
        """Set the unit that shares capacity within a tier: `tasks`, or `apps` and then the tasks of each app."""
        if shared_by not in fields.SHARED_BY:
            raise InvalidInput(f"sharing: is {shared_by!r}; it must be {' or '.join(fields.SHARED_BY)}.")
        self._put({fields.SHARING: shared_by})

    def cap_channel(self, channel: str, cap: Cap) -> None:
        """Set the maximum targets/s of a channel over all tasks; Cap(0): no cap."""
        self._cap(pools_of("", _named("channel", channel)).channel, cap, f"cap of channel {channel}")

    def cap_app(self, app: str, cap: Cap, channel: str | None = None) -> None:
        """Set the maximum targets/s of an app, over all channels or on one channel; Cap(0): no cap."""
        _named("app", app)
        if channel is None:
            self._cap(pools_of(app, "").app, cap, f"cap of app {app}")
        else:
            pool = pools_of(app, _named("channel", channel)).app_channel
            self._cap(pool, cap, f"cap of app {app} on channel {channel}")

    def pause_channel(self, channel: str, *, paused: bool) -> None:
        """Pause or resume a channel. Nothing is sent while it is paused; targets in flight are not called back."""
        self._put({fields.paused_field(_named("channel", channel)): "1" if paused else "0"})

    def weigh_app(self, app: str, weight: float) -> None:
        """Set an app's weight among the apps of a tier, 0.001 to 1,000, used where apps share capacity."""
        self._put({fields.app_weight_field(_named("app", app)): str(in_milli("weight", weight))})

    def limit_app(self, app: str, tasks: int | None = None, targets: int | None = None) -> None:
        """Set the maximum number of live tasks and of queued targets of an app, applied at its next submission.

        0: any number; None: unchanged. app `*`: every app that has no limit of its own.
        """
        if app != EVERY_APP:
            _named("app", app)
        given = {fields.task_limit_field(app): tasks, fields.target_limit_field(app): targets}
        checked = {field: _limit(number) for field, number in given.items() if number is not None}
        if not checked:
            raise InvalidInput("limit: name a number of tasks, of targets, or both.")
        self._put(checked)

    def _cap(self, pool: str, cap: Cap, name: str) -> None:
        self._put({fields.cap_field(pool): cap.checked(name).text})


@cache
def _name() -> TypeAdapter[str]:
    return TypeAdapter(Name)  # takes 30 ms, and most commands do not need it


def _named(kind: str, name: str) -> str:
    try:
        return _name().validate_python(name)
    except ValidationError:
        raise InvalidInput(f"{kind}: is {name!r}; {NAME_RULE}.") from None


def _limit(number: int) -> str:
    if not fields.is_count(number, MAX_TARGETS):
        raise InvalidInput(f"limit: is {number!r}; it must be a whole number, 0 (for none) to {MAX_TARGETS:,}.")
    return str(int(number))
