"""Send errors: a channel's answers other than "sent", collected by task until they are stored and logged."""

import threading
from collections.abc import Iterable

import msgspec

MAX_TASKS = 1_000
"""Maximum tasks whose errors are kept between two heartbeats. Errors of further tasks are not stored."""


class SendError(msgspec.Struct, frozen=True):
    """The last error of a task, and the number of errors."""

    reason: str
    """The channel's own text."""
    count: int
    """Targets not sent because of an error; one that fails three times counts three times."""
    at_ms: int
    """Wall time of the last error."""
    attempt: int
    """The attempt that failed, from 1."""
    retry_ms: int
    """Wall time when the next attempt is due; 0 if there is none."""

    def after(self, earlier: "SendError | None") -> "SendError":
        """Return this error with the count of earlier ones added."""
        return self if earlier is None else msgspec.structs.replace(self, count=self.count + earlier.count)


class SendErrors:
    """Errors by task, with their channel. The engine's thread calls `note`, any other thread calls `take`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: dict[str, tuple[str, SendError]] = {}

    def note(self, task: str, channel: str, error: SendError) -> None:
        """Count an error of a task."""
        with self._lock:
            _, earlier = self._errors.get(task, (channel, None))
            if earlier is not None or len(self._errors) < MAX_TASKS:
                self._errors[task] = channel, error.after(earlier)

    def take(self) -> dict[str, tuple[str, SendError]]:
        """Return the errors since the last call: task -> channel and error."""
        with self._lock:
            errors, self._errors = self._errors, {}
        return errors

    def put_back(self, errors: Iterable[tuple[str, tuple[str, SendError]]]) -> None:
        """Put back errors that could not be stored, so that they are taken again."""
        with self._lock:
            for task, (channel, error) in errors:
                _, later = self._errors.get(task, (channel, None))
                if later is None and len(self._errors) >= MAX_TASKS:
                    continue
                self._errors[task] = channel, error if later is None else later.after(error)
