"""Send errors: a channel's answers other than "sent", collected by task until they are stored and logged."""

import threading
from collections.abc import Iterable

import msgspec

MAX_TASKS = 1_000
"""Maximum tasks whose errors are kept between two heartbeats. Errors of further tasks are not stored."""
CAP_TEXT = "the cap has not let it through in time"
"""Why targets are put back that a cap holds back."""


class SendError(msgspec.Struct, frozen=True, gc=False):
    """The last error of a task, and the number of errors. Apart from these: the targets that were put back unsent."""

    reason: str
    """The channel's own text."""
    count: int
    """Targets that the provider refused or did not answer for; one that fails three times counts three times."""
    at_ms: int
    """Wall time of the last error; 0: there was none."""
    attempt: int
    """The attempt that failed, from 1."""
    retry_ms: int
    """Wall time when the next attempt is due; 0 if there is none."""

    unsent: int = 0
    """Targets that were put back without asking the provider, each time counted: a pause, a cap, no connection."""
    unsent_ms: int = 0
    """Wall time at which the last of these were put back; 0: there were none."""
    unsent_reason: str = ""
    """Why these were put back."""

    @property
    def last_ms(self) -> int:
        """Wall time of the last error or put-back."""
        return max(self.at_ms, self.unsent_ms)

    @property
    def last_reason(self) -> str:
        """The reason of the last error or put-back."""
        return self.reason if self.at_ms >= self.unsent_ms else self.unsent_reason

    def after(self, earlier: "SendError | None") -> "SendError":
        """Return this error with the counts of earlier ones added. A put-back leaves the last error as it was."""
        if earlier is None:
            return self
        failed, back = (self if self.count else earlier), (self if self.unsent else earlier)
        count, unsent = self.count + earlier.count, self.unsent + earlier.unsent
        last = (failed.reason, count, failed.at_ms, failed.attempt, self.retry_ms)
        return SendError(*last, unsent, back.unsent_ms, back.unsent_reason)


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
