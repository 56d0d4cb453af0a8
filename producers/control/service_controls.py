"""Live controls of what all tasks share: capacity, tiers, caps of channels and apps, admission."""

from collections.abc import Callable, Mapping
from functools import cache

from pydantic import TypeAdapter, ValidationError

from dispatcher.model import service_settings as fields
from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import NAME_RULE
from dispatcher.model.service_settings import EVERY_APP, Cap
from dispatcher.model.task import MAX_TARGETS, Name
from dispatcher.model.tier import in_milli
from dispatcher.wire.control import FORMAT, GlobalChange
from producers.control.controls import store
from producers.ports import Services

Put = Callable[[Mapping[str, str]], None]


def stored_by(services: Callable[[], Services]) -> Put:
    """Writes changes to the control topic and to the registry; workers follow within 200 ms. services: called when
    first needed, since it connects. Raises Unreachable."""

    def put(values: Mapping[str, str]) -> None:
        there = services()
        now_ms = there.clock.wall_ms()
        store(there, [GlobalChange(FORMAT, field, text, now_ms) for field, text in values.items()])

    return put


class ServiceControls:
    """Changes the settings of the whole service. put: takes the fields that change, with their texts.

    All raise InvalidInput, and what `put` raises.
    """

    def __init__(self, put: Put) -> None:
        self._put = put

    def set_capacity(self, targets_per_s: int, burst: int = 0) -> None:
        """Of all workers together; 0: unlimited. burst: targets sent at once, 0 for a quarter of a second's worth."""
        self._put({fields.CAPACITY: Cap(targets_per_s, burst).checked("capacity").text})

    def set_tiers(self, high: float, medium: float, low: float) -> None:
        """Weights of the tiers, 0.001 to 1,000 each."""
        weights = {"high": high, "medium": medium, "low": low}
        self._put({fields.TIER_WEIGHTS: ":".join(str(in_milli(name, weight)) for name, weight in weights.items())})

    def set_sharing(self, shared_by: str) -> None:
        """What shares within a tier: `tasks`, or `apps` (and then the tasks of each)."""
        if shared_by not in fields.SHARED_BY:
            raise InvalidInput(f"sharing: is {shared_by!r}; it can be {' or '.join(fields.SHARED_BY)}.")
        self._put({fields.SHARING: shared_by})

    def cap_channel(self, channel: str, cap: Cap) -> None:
        """Most targets/s of everything on a channel; Cap(0): no cap."""
        self._cap(fields.channel_pool(_named("channel", channel)), cap, f"cap of channel {channel}")

    def cap_app(self, app: str, cap: Cap, channel: str | None = None) -> None:
        """Most targets/s of everything of an app, or of what it sends on one channel; Cap(0): no cap."""
        _named("app", app)
        if channel is None:
            self._cap(fields.app_pool(app), cap, f"cap of app {app}")
        else:
            pool = fields.app_channel_pool(app, _named("channel", channel))
            self._cap(pool, cap, f"cap of app {app} on channel {channel}")

    def pause_channel(self, channel: str, paused: bool) -> None:
        """Nothing is sent on a channel until it is resumed. Nothing in flight is called back."""
        self._put({fields.paused_field(_named("channel", channel)): "1" if paused else "0"})

    def weigh_app(self, app: str, weight: float) -> None:
        """Share among the apps of a tier, 0.001 to 1,000, where apps share."""
        self._put({fields.app_weight_field(_named("app", app)): str(in_milli("weight", weight))})

    def limit_app(self, app: str, tasks: int | None = None, targets: int | None = None) -> None:
        """Most live tasks and most queued targets of an app, at its next submission; 0: any number, None: as it is.
        app `*`: every app that has no limit of its own."""
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
    return TypeAdapter(Name)  # takes 30 ms, which most commands need not wait for


def _named(kind: str, name: str) -> str:
    try:
        return _name().validate_python(name)
    except ValidationError:
        raise InvalidInput(f"{kind}: is {name!r}; {NAME_RULE}.") from None


def _limit(number: int) -> str:
    if not fields.is_count(number, MAX_TARGETS):
        raise InvalidInput(f"limit: is {number!r}; it is a whole number, 0 (for none) to {MAX_TARGETS:,}.")
    return str(int(number))
