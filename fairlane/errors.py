"""Every error that Fairlane raises on purpose; FairlaneError is the base class of all."""

from typing import TYPE_CHECKING

from fairlane.public_names import public_module

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
    __getattr__, __dir__ = public_module(__name__, __all__, dict.fromkeys(__all__, "dispatcher.model.errors"))
