"""Settings of the whole service as stored: pairs of field and text. The last text of a field in the control topic
applies."""

import re
from collections.abc import Mapping
from typing import NamedTuple, Self

from dispatcher.model.errors import InvalidInput
from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, MILLI, TIERS

WINDOW_S = 0.25
"""The buckets of a cap hold as much as it allows in this time, unless it has a burst."""
MAX_CAP = 10**9
"""Maximum of a rate (targets/s) and of a burst (targets)."""
CAPACITY = "capacity"
TIER_WEIGHTS = "tiers"
SHARING = "sharing"
SHARED_BY = ("tasks", "apps")
"""How tasks share within a tier: by their own weights, or by the weights of apps and then of their tasks."""
EVERY_APP = "*"
"""In place of an app in a limit: applies to every app without a limit of its own."""
_CAP = "cap:"
_PAUSED = "channel_paused:"
_APP_WEIGHT = "app_weight:"
_TASKS = "limit:tasks:"
_TARGETS = "limit:targets:"
_WRITTEN_CAP = re.compile(r"(\d+)(?::(\d+))?", re.ASCII)
_WRITTEN_WEIGHTS = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9})", re.ASCII)
_WRITTEN_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)
_LONGEST_CAP = 64


def is_count(value: object, maximum: int) -> bool:
    """Return whether the value is a whole number from 0 to `most`; 2.0 counts as one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= maximum and value % 1 == 0


class Cap(NamedTuple):
    """A maximum rate, and a burst above it."""

    rate: int
    """Targets/s; 0 for no cap."""
    burst: int = 0
    """Targets that may be sent at once; 0 for a quarter of a second of the rate."""

    @classmethod
    def parse(cls, text: str, name: str = "cap") -> Self:
        """Parse "RATE", "RATE:BURST" or "none". Raises InvalidInput."""
        if text == "none":
            return cls(0)
        written = _WRITTEN_CAP.fullmatch(text)
        if written is None:
            raise InvalidInput(f"{name}: is {text!r}; write RATE or RATE:BURST (targets/s and targets), or none.")
        return cls(int(written[1]), int(written[2] or 0)).checked(name)

    @property
    def text(self) -> str:
        """The stored form."""
        return f"{int(self.rate)}:{int(self.burst)}" if self.burst else str(int(self.rate))

    @property
    def allowance(self) -> float:
        """Targets that may be sent at once in addition to the rate."""
        return self.burst or max(self.rate * WINDOW_S, 1)

    def checked(self, name: str = "cap") -> Self:
        """Return this cap if it is valid. Raises InvalidInput with this name if a part is beyond its limits."""
        for part, unit in ((self.rate, "targets/s"), (self.burst, "targets of burst")):
            if not is_count(part, MAX_CAP):
                raise InvalidInput(f"{name}: is {part!r}; it must be a whole number of {unit}, 0 to {MAX_CAP:,}.")
        if self.burst and not self.rate:
            raise InvalidInput(f"{name}: has a burst and no rate.", "Write RATE:BURST, for example 500:100.")
        return self


NO_CAP = Cap(0)


class Limits(NamedTuple):
    """Admission limits of an app; 0 for unlimited."""

    tasks: int = 0
    """Maximum live tasks."""
    targets: int = 0
    """Maximum queued targets."""


def cap_field(pool: str) -> str:
    """Return the field that holds a pool's cap: `app_channel/shop/http` is `cap:app_channel:shop/http`."""
    return _CAP + pool.replace("/", ":", 1)


def paused_field(channel: str) -> str:
    return _PAUSED + channel


def app_weight_field(app: str) -> str:
    return _APP_WEIGHT + app


def task_limit_field(app: str) -> str:
    return _TASKS + app


def target_limit_field(app: str) -> str:
    return _TARGETS + app


def tier_weights_of(text: str) -> dict[str, int]:
    """Parse weights by tier, in thousandths, from "6000:3000:1000"; any other text gives the default."""
    written = _WRITTEN_WEIGHTS.fullmatch(text)
    weights = map(int, written.groups()) if written else DEFAULT_TIER_WEIGHTS.values()
    return {str(tier): weight for tier, weight in zip(TIERS, weights, strict=True)}


def stored_cap(text: str) -> Cap:
    """Parse a stored cap. A malformed text gives NO_CAP: an older version stored values unchecked."""
    try:
        return Cap.parse(text[:_LONGEST_CAP])
    except InvalidInput:
        return NO_CAP


def stored_number(text: str) -> int:
    """Parse a stored whole number; any other text gives 0."""
    return int(text) if _WRITTEN_NUMBER.fullmatch(text) else 0


def caps_of(fields: Mapping[str, str]) -> dict[str, Cap]:
    """Return caps by pool name; pools without a cap are left out."""
    named = {name.replace(":", "/", 1): stored_cap(text) for name, text in _under(fields, _CAP)}
    return {pool: cap for pool, cap in named.items() if cap.rate}


def paused_of(fields: Mapping[str, str]) -> frozenset[str]:
    """Return the paused channels."""
    return frozenset(name for name, text in _under(fields, _PAUSED) if text == "1")


def app_weights_of(fields: Mapping[str, str]) -> dict[str, int]:
    """Return weights by app, in thousandths; apps with the default weight are left out."""
    weights = {name: stored_number(text) or MILLI for name, text in _under(fields, _APP_WEIGHT)}
    return {name: weight for name, weight in weights.items() if weight != MILLI}


def limits_of(fields: Mapping[str, str]) -> dict[str, Limits]:
    """Return limits by app (including EVERY_APP); apps without limits are left out."""
    tasks = {name: stored_number(text) for name, text in _under(fields, _TASKS)}
    targets = {name: stored_number(text) for name, text in _under(fields, _TARGETS)}
    both = {name: Limits(tasks.get(name, 0), targets.get(name, 0)) for name in tasks.keys() | targets.keys()}
    return {name: limits for name, limits in both.items() if any(limits)}


def _under(fields: Mapping[str, str], prefix: str) -> list[tuple[str, str]]:
    return [(field[len(prefix) :], text) for field, text in sorted(fields.items()) if field.startswith(prefix)]
