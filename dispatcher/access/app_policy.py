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
    def text(self) -> str:
        """The stored form."""
        return msgspec.json.encode(self, order="deterministic").decode()

    def check_task(self, task: PushTask, app: str) -> None:
        """Raise InvalidInput, with a line for each bound, for a task beyond the policy."""
        ttl_s, targets = math.inf if task.ttl_s is None else task.ttl_s, task.expected_targets
        self.check(app, channel=task.channel, tier=task.tier, weight=task.weight, targets=targets, ttl_s=ttl_s)

    def check(self, app: str, *, channel: str | None = None, tier: str | None = None, **sizes: float | None) -> None:
        """Raise InvalidInput, with a line for each value beyond the policy; None is within.

        sizes: `weight`, `targets`, `ttl_s`; also `audience`, the number of targets so far.
        """
        longest_s = math.inf if self.ttl_s >= MAX_TTL_S else self.ttl_s  # without a bound a task may never expire
        bounds = {"weight": self.weight, "targets": self.targets, "ttl_s": longest_s}
        lines = list[str]()
        for name, value in sizes.items():
            bound = name if name in bounds else "targets"
            if value is not None and value > bounds[bound]:
                shown = "not set" if value == math.inf else f"{value:,g}"
                lines.append(f"{name}: is {shown}; the policy of app {app} allows {bound} up to {bounds[bound]:,g}.")
        if channel is not None and channel not in self.channels:
            known = ", ".join(self.channels) or "none"
            lines.append(f"channel: is {channel!r}; the policy of app {app} allows channels: {known}.")
        if tier in TIERS and TIERS.index(Tier(tier)) < TIERS.index(self.tier):
            lines.append(f"tier: is {tier}; the policy of app {app} allows tiers up to {self.tier}.")
        if lines:
            raise InvalidInput("\n".join(lines), "An operator may change the policy: `fairlane app policy`.")

    def _check(self) -> None:
        bounds = {"weight": MAX_WEIGHT, "targets": MAX_TARGETS, "ttl_s": MAX_TTL_S, "requests_s": MAX_REQUESTS_S}
        for name, maximum in bounds.items():
            value = getattr(self, name)
            if not 0 < value <= maximum:
                raise InvalidInput(f"policy.{name}: is {value}; it must be above 0 and at most {maximum:,}.")
