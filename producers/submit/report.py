"""Report a submission to its caller: progress, refused targets, result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dispatcher.clock import Clock
from dispatcher.model.errors import InvalidInput
from producers.submit.validation import Refusal

KEPT_REFUSALS = 100
"""The number of refused targets that a SubmitResult names; the count includes all."""
_PROGRESS_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class SubmitProgress:
    """The progress of a submission."""

    task: str
    """The task's id."""
    accepted: int
    """Accepted targets so far, including those of an earlier submission of this task."""
    refused: int
    """Refused targets so far, counted in the same way."""
    seconds: float
    """Time since the submission began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitResult:
    """The result of a submission."""

    task: str
    """The task's id."""
    created_ms: int
    """Wall time when the task was accepted, which an earlier call may have done."""
    accepted: int
    """The number of accepted targets. If the task was stopped: those that it counts, which get outcomes."""
    refused: int
    """The number of refused targets."""
    refusals: tuple[Refusal, ...]
    """The first 100 refused targets."""
    envelopes: int
    """The number of envelopes of the whole task."""
    resumed_from: int
    """The envelope at which this call began to send. 0: the first; equal to `envelopes`: nothing was left to send."""
    stopped: str
    """Why the rest of the audience was not taken (cancelled, ...), or empty."""
    seconds: float
    """The duration of the call."""
    duplicates: int | None = None
    """Repeated targets, removed or counted (among the first 100,000); None: not counted."""
    without_text: Mapping[str, int] = field(default_factory=dict)
    """By language, the targets for which `locales` has no text. They get the texts of the message itself."""


@dataclass(frozen=True, slots=True)
class Watchers:
    """The caller's callbacks; they run in the submitting thread."""

    on_progress: Callable[[SubmitProgress], None] | None = None
    on_refused: Callable[[Refusal], None] | None = None


class SubmitReport:
    """Tracks and reports the progress of one submission. refused: targets so far. created_ms: as in SubmitResult."""

    def __init__(self, task: str, watchers: Watchers, clock: Clock) -> None:
        self.refused = self.created_ms = 0
        self._task = task
        self._watchers = watchers
        self._clock = clock
        self._refusals: list[Refusal] = []
        self._began_s = clock.monotonic_s()
        self._shown_s = self._began_s

    def refuse(self, refusals: list[Refusal]) -> None:
        """Count refused targets and report them to the caller."""
        self.refused += len(refusals)
        self._refusals += refusals[: KEPT_REFUSALS - len(self._refusals)]
        if self._watchers.on_refused is not None:
            for refusal in refusals:
                self._watchers.on_refused(refusal)

    def nothing_accepted(self) -> InvalidInput:
        """Return the error for an audience without an accepted target."""
        cause = "is empty"
        if self._refusals:
            first = self._refusals[0]
            refused = f"{self.refused:,} refused; the first, line {first.line}: {first.reason}"
            cause = f"has no target that is accepted ({refused})"
        return InvalidInput(
            f"targets: the audience of task {self._task} {cause}, so the task is not submitted.",
            "Check where the targets come from. If it may be empty, say so with allow_empty (`--allow-empty`).",
        )

    def progress(self, accepted: int) -> None:
        """Report the progress to the caller, at most twice a second."""
        now_s = self._clock.monotonic_s()
        if self._watchers.on_progress is not None and now_s - self._shown_s >= _PROGRESS_EVERY_S:
            self._shown_s = now_s
            self._watchers.on_progress(self._now(accepted, now_s))

    def result(self, stopped: str, accepted: int, envelopes: int, resumed_from: int) -> SubmitResult:
        """Return the result; it is reported as progress first."""
        now = self._now(accepted, self._clock.monotonic_s())
        if self._watchers.on_progress is not None:
            self._watchers.on_progress(now)
        return SubmitResult(
            task=now.task,
            created_ms=self.created_ms,
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
