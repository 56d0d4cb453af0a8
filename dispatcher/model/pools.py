"""The pools that caps limit, by name; `capped_by` in quotas/lua/lease/settings.lua builds the same names."""

from typing import NamedTuple, Self

TOTAL = "total"
"""The pool that all tasks draw from; its cap is the capacity."""


class PoolNames(NamedTuple):
    """The pools, besides the total, that a task draws from if they are capped."""

    channel: str
    app: str
    app_channel: str


def pools_of(app: str, channel: str) -> PoolNames:
    return PoolNames(f"channel/{channel}", f"app/{app}", f"app_channel/{app}/{channel}")


class Pool(NamedTuple):
    """A channel, an app, or an app on one channel; the other part is empty."""

    app: str = ""
    channel: str = ""

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the pool of that name; None for the total and for names that are none."""
        match name.split("/"):
            case ["channel", channel] if channel:
                return cls(channel=channel)
            case ["app", app] if app:
                return cls(app)
            case ["app_channel", app, channel] if app and channel:
                return cls(app, channel)
        return None

    def __str__(self) -> str:
        return " on ".join(f"{kind} {name}" for kind, name in zip(self._fields, self, strict=True) if name)
