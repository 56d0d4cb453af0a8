"""The result of a run, ready to be printed; `-o json` prints exactly this."""

from typing import Any

import msgspec


class Windows(msgspec.Struct, frozen=True):
    """Targets sent in each window of window_s."""

    window_s: float
    sent: dict[str, list[int]]
    """Targets by tier in each window, from time 0."""
    shares: dict[str, list[float]]
    """Their percentages."""


class GapFigure(msgspec.Struct, frozen=True):
    """The longest gap of a tier."""

    targets: int
    """Targets of other tiers sent between two sends of this tier while it had a backlog."""
    bound: float
    """Law 3's bound for it."""
    at_s: float


class TierFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a tier."""

    weight: float
    published: int
    sent: int
    share: float
    """Percent of all targets sent."""
    jain: float | None
    """Lowest Jain index of the tier's tasks in any time span with two or more tasks backlogged throughout; null if
    there is none."""
    longest_gap: GapFigure | None
    """Null if the tier never waited."""


class CapFigure(msgspec.Struct, frozen=True):
    """How close the grants under a cap came to its limit."""

    rate: int
    """As last set, even if the cap was lifted later."""
    burst: float
    """As last set, like rate."""
    most_in_1s: int
    """Targets granted, less those given back, in the second that came nearest to its limit."""
    limit: float
    overshoot: float
    """Targets above the limit."""


class TaskFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a task. Times are seconds from the start; null if the event did not happen."""

    task: str
    entry: str
    """The entry of the scenario, which may describe many tasks."""
    tier: str
    weight: float
    targets: int
    sent: int
    arrived_s: float | None
    first_sent_s: float | None
    last_sent_s: float | None
    ended_s: float | None
    sent_by_window: list[int]
    """Targets sent in each window."""


class Violation(msgspec.Struct, frozen=True):
    """An invariant that did not hold."""

    rule: str
    at_s: float
    what: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a run, and its violations."""

    format: int
    scenario: str
    about: str
    seed: int
    ran_s: float
    events: int
    capacity: int
    use: float | None
    """The part of the capacity granted while there was demand; null without a capacity."""
    tiers: dict[str, TierFigure]
    caps: dict[str, CapFigure]
    windows: Windows
    tasks: list[TaskFigure]
    outcomes: dict[str, int]
    """Targets by outcome."""
    repeats: int
    """Envelopes for which a provider was called again."""
    workers: dict[str, int]
    ledger: dict[str, int]
    """granted = used + returned + expired + held, in targets; calls: of all workers."""
    violations: list[Violation]
    """The first 100 violations at most."""
    violation_count: int
    """The number of all violations."""
    replay: str
    """The command that runs it again."""

    @property
    def good(self) -> bool:
        """Return whether nothing was violated."""
        return not self.violation_count

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields
