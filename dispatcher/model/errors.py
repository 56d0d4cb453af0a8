"""Fairlane's own errors. Each names the cause, what to do next, and whether a retry helps."""

from dispatcher.model.shown import without_credentials


class FairlaneError(Exception):
    """Base of every error that Fairlane raises on purpose. Its messages hide credentials in addresses."""

    exit_code = 1
    """Exit code of the command line."""
    retryable = False
    """Whether the same call may succeed later without any change."""

    def __init__(self, cause: str, next_step: str = "") -> None:
        cause, next_step = without_credentials(cause), without_credentials(next_step)
        super().__init__(f"{cause} {next_step}".strip())
        self.cause = cause
        """The cause, in one sentence."""
        self.next_step = next_step
        """The next step for the user, in one sentence; may be empty."""


class InvalidInput(FairlaneError):
    """The caller's input breaks a documented limit; the cause names the field."""

    exit_code = 2


class NotConfigured(InvalidInput):
    """No address of a server is configured, and no local stack is up."""


class NotFound(FairlaneError):
    """A task (or another named thing) does not exist, or its tombstone has expired."""

    exit_code = 3


class Unreachable(FairlaneError):
    """Pulsar or Redis cannot be reached, or does not answer in time."""

    exit_code = 4
    retryable = True


class Refused(FairlaneError):
    """The request is understood and refused: a conflict, a limit, or a state that does not allow it."""

    exit_code = 5


class TimedOut(FairlaneError):
    """The task did not end within the given time; it continues."""

    exit_code = 4
    retryable = True


class Hung(FairlaneError):
    """A part of a worker stalled, so the worker ended itself."""

    exit_code = 6
    retryable = True


class NoKey(FairlaneError):
    """A request has no key, or one that is unknown, has ended or was revoked."""


class Forbidden(Refused):
    """The key or user lacks the right that the request needs."""


class LimitReached(Refused):
    """An app has reached its limit of live tasks or queued targets. Nothing of the new task was created. The same
    submission is accepted later, once part of the queue is done or the limit is raised."""

    retryable = True


class AudienceMismatch(Refused):
    """A task id was submitted again with another task or another audience."""


class BeingSubmitted(Refused):
    """Another submission of the same task is under way, or has taken this one over. Repeat the call once the other one
    has ended: it then verifies."""

    retryable = True


class TaskEnded(Refused):
    """The task has ended (completed, cancelled, expired or failed) and takes neither targets nor controls."""


class NotReady(FairlaneError):
    """The view in Redis is empty or being rebuilt. Grants and exact progress return without any action."""

    exit_code = 4
    retryable = True


class Malformed(FairlaneError):
    """Stored bytes do not match their format."""


class NewerFormat(FairlaneError):
    """The bytes were stored by a later version of Fairlane. They are not damaged, but this version cannot read them."""


DECODING_ERRORS = (ValueError, RecursionError, OverflowError, MemoryError)
"""Errors that msgspec raises for bytes from outside. Its own errors and those of text decoding are ValueErrors. Nesting
that is too deep raises a RecursionError; a time or length that is too large raises one of the others."""
