"""Report a submission to its caller: progress, refused targets, result."""

from collections.abc import Callable
from dataclasses import dataclass

from dispatcher.clock import Clock
from dispatcher.model.errors import InvalidInput
from producers.submit.validation import Refusal

KEPT_REFUSALS = 100
"""Refused targets that a SubmitResult names; the count is of all."""
_PROGRESS_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class SubmitProgress:
    """How far a submission is."""

    task: str
    """Id of the task."""
    accepted: int
    """Targets so far, those of an earlier submission of this task included."""
    refused: int
    """Targets so far, counted in the same way."""
    seconds: float
    """Since it began."""


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """The result of a submission."""

    task: str
    """Id of the task."""
    accepted: int
    """Targets."""
    refused: int
    """Targets."""
    refusals: tuple[Refusal, ...]
    """The first 100."""
    envelopes: int
    """Of the whole task."""
    resumed_from: int
    """The envelope that this call began to send at. 0: the first; equal to `envelopes`: nothing was left to send."""
    stopped: str
    """Empty, or why the rest of the audience was not taken (cancelled, ...)."""
    seconds: float
    """How long it took."""
    duplicates: int | None = None
    """Targets that came before, removed or counted (among the first 100,000); None: not counted."""


@dataclass(frozen=True, slots=True)
class Watchers:
    """The caller's callbacks; they run in the submitting thread."""

    on_progress: Callable[[SubmitProgress], None] | None = None
    on_refused: Callable[[Refusal], None] | None = None


class SubmitReport:
    """Progress of one submission. refused: targets so far."""

    def __init__(self, task: str, watchers: Watchers, clock: Clock) -> None:
        self.refused = 0
        self._task = task
        self._watchers = watchers
        self._clock = clock
        self._refusals: list[Refusal] = []
        self._began_s = clock.monotonic_s()
        self._shown_s = self._began_s

    def refuse(self, refusals: list[Refusal]) -> None:
        """Count them, and show them to the caller."""
        self.refused += len(refusals)
        self._refusals += refusals[: KEPT_REFUSALS - len(self._refusals)]
        if self._watchers.on_refused is not None:
            for refusal in refusals:
                self._watchers.on_refused(refusal)

    def nothing_accepted(self) -> InvalidInput:
        """Return the error for an audience without a target that is accepted."""
        cause = "is empty"
        if self._refusals:
            first = self._refusals[0]
            refused = f"{self.refused:,} refused; the first, line {first.line}: {first.reason}"
            cause = f"has no target that is accepted ({refused})"
        return InvalidInput(
            f"targets: the audience of task {self._task} {cause}, so the task is not submitted.",
            "Check where the targets come from. If it may be empty, say so: `--allow-empty`, allow_empty=True.",
        )

    def progress(self, accepted: int) -> None:
        """Show it to the caller, not more often than twice a second."""
        now_s = self._clock.monotonic_s()
        if self._watchers.on_progress is not None and now_s - self._shown_s >= _PROGRESS_EVERY_S:
            self._shown_s = now_s
            self._watchers.on_progress(self._now(accepted, now_s))

    def result(self, stopped: str, accepted: int, envelopes: int, resumed_from: int) -> SubmitResult:
        """The result; it is shown as progress first."""
        now = self._now(accepted, self._clock.monotonic_s())
        if self._watchers.on_progress is not None:
            self._watchers.on_progress(now)
        return SubmitResult(
            task=now.task,
            accepted=now.accepted,
            refused=now.refused,
            refusals=tuple(self._refusals),
            envelopes=envelopes,
            resumed_from=resumed_from,
            stopped=stopped,
            seconds=now.seconds,
        )

    def _now(self, accepted: int, now_s: float) -> SubmitProgress:
        return SubmitProgress(self._task, accepted, self.refused, now_s - self._began_s)
