"""Every error that Fairlane raises on purpose; FairlaneError is the base class of all."""

from typing import TYPE_CHECKING

from fairlane.lazy import public_name

if TYPE_CHECKING:
    from dispatcher.model.errors import (
        AudienceMismatch,
        BeingSubmitted,
        FairlaneError,
        InvalidInput,
        LimitReached,
        NotConfigured,
        NotFound,
        NotReady,
        Refused,
        TaskEnded,
        TimedOut,
        Unreachable,
    )

__all__ = [
    "AudienceMismatch",
    "BeingSubmitted",
    "FairlaneError",
    "InvalidInput",
    "LimitReached",
    "NotConfigured",
    "NotFound",
    "NotReady",
    "Refused",
    "TaskEnded",
    "TimedOut",
    "Unreachable",
]


if not TYPE_CHECKING:  # type checkers report a name that is not listed above

    def __getattr__(name: str) -> object:
        """Import a public name from where it is defined."""
        return public_name(__name__, name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
