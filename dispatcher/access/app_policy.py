"""Bounds of requests with an app's keys: channels, tier, weight, size, time to live, and requests a second."""

import math
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from dispatcher.channels.names import PROVIDERS
from dispatcher.model.errors import DECODING_ERRORS, InvalidInput, Malformed
from dispatcher.model.task import MAX_TARGETS, MAX_TTL_S, PushTask
from dispatcher.model.tier import MAX_WEIGHT, TIERS, Tier

MAX_REQUESTS_S = 10_000


class AppPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Bounds of what the keys of one app may ask for. The defaults apply to apps without a policy.

    The number of live tasks is bounded by the app's limit, which holds for every client (`fairlane app limit`).
    """

    channels: tuple[str, ...] = PROVIDERS
    """The channels that it may use. `fcm` and `apns` have credentials for each app; `http` and custom channels have one
    set for all apps, so they must be named."""
    tier: Tier = Tier.HIGH
    """The highest tier."""
    weight: float = 1.0
    """The largest weight of a task."""
    targets: int = MAX_TARGETS
    """The largest audience of a task."""
    ttl_s: float = float(MAX_TTL_S)
    """The longest time to live of a task, in seconds."""
    requests_s: int = 100
    """Requests a second, over all its keys and all processes of the service."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return a policy of values given by a user. Raises InvalidInput."""
        try:
            policy = msgspec.convert(fields, cls, strict=True)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"policy: {error}.") from None
        policy._check()
        return policy

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a stored policy. Raises Malformed."""
        try:
            policy = msgspec.json.decode(text, type=cls)
            policy._check()
        except (*DECODING_ERRORS, InvalidInput) as error:
            raise Malformed(f"its policy is not readable: {error}") from error
        return policy

    @property
    def longest_ttl_s(self) -> float:
        """The bound of a ttl, in seconds. Without one of its own a policy also allows tasks that never expire."""
        return math.inf if self.ttl_s >= MAX_TTL_S else self.ttl_s

    @property
    def text(self) -> str:
        """The stored form."""
        return msgspec.json.encode(self, order="deterministic").decode()

    def check_task(self, task: PushTask, app: str) -> None:
        """Raise InvalidInput, with a line for each bound, for a task beyond the policy."""
        beyond = [
            *self._beyond(app, channel=task.channel, tier=task.tier, weight=task.weight),
            *_above(app, "targets", task.expected_targets, "targets", self.targets),
            *_above(app, "ttl_s", math.inf if task.ttl_s is None else task.ttl_s, "ttl_s", self.longest_ttl_s),
        ]
        if beyond:
            raise InvalidInput("\n".join(beyond), _ASK)

    def check_change(self, app: str, tier: Tier | str | None, weight: float | None) -> None:
        """Raise InvalidInput for a change of a task beyond the policy; None is no change."""
        beyond = list(self._beyond(app, tier=tier, weight=weight))
        if beyond:
            raise InvalidInput("\n".join(beyond), _ASK)

    def check_size(self, app: str, targets: int) -> None:
        """Raise InvalidInput once an audience is larger than allowed."""
        for line in _above(app, "audience", targets, "targets", self.targets):
            raise InvalidInput(line, _ASK)

    def _beyond(
        self, app: str, *, channel: str | None = None, tier: Tier | str | None = None, weight: float | None = None
    ) -> list[str]:
        lines = _above(app, "weight", weight, "weight", self.weight)
        if channel is not None and channel not in self.channels:
            known = ", ".join(self.channels) or "none"
            lines.append(f"channel: is {channel!r}; the policy of app {app} allows channels: {known}.")
        if tier is not None and tier in TIERS and TIERS.index(Tier(tier)) < TIERS.index(self.tier):
            lines.append(f"tier: is {tier}; the policy of app {app} allows tiers up to {self.tier}.")
        return lines

    def _check(self) -> None:
        bounds = {"weight": MAX_WEIGHT, "targets": MAX_TARGETS, "ttl_s": MAX_TTL_S, "requests_s": MAX_REQUESTS_S}
        for name, maximum in bounds.items():
            value = getattr(self, name)
            if not 0 < value <= maximum:
                raise InvalidInput(f"policy.{name}: is {value}; it must be above 0 and at most {maximum:,}.")


_ASK = "An operator may change the policy: `fairlane app policy`."


def _above(app: str, field: str, value: float | None, bound: str, maximum: float) -> list[str]:
    if value is None or value <= maximum:
        return []
    shown = "not set" if value == math.inf else f"{value:,g}"
    return [f"{field}: is {shown}; the policy of app {app} allows {bound} up to {maximum:,g}."]
