"""What a run has shown, ready to be printed; `-o json` prints exactly this."""

from typing import Any

import msgspec


class Windows(msgspec.Struct, frozen=True):
    """sent: targets by tier in each window of window_s, from 0 on. shares: their percentages."""

    window_s: float
    sent: dict[str, list[int]]
    shares: dict[str, list[float]]


class GapFigure(msgspec.Struct, frozen=True):
    """Targets others were sent between two sends of a tier with backlog; law 3's bound for it."""

    targets: int
    bound: float
    at_s: float


class TierFigure(msgspec.Struct, frozen=True):
    """share: percent of all targets sent. jain: the lowest index of the tier's tasks in any stretch in which at least
    two had backlog all through; null where there was none. longest_gap: null where the tier never waited."""

    weight: float
    published: int
    sent: int
    share: float
    jain: float | None
    longest_gap: GapFigure | None


class CapFigure(msgspec.Struct, frozen=True):
    """rate, burst: as last set, also where the cap was lifted since. most_in_1s: granted, less what was given back, in
    the second that came nearest to its limit; overshoot: targets above it."""

    rate: int
    burst: float
    most_in_1s: int
    limit: float
    overshoot: float


class TaskFigure(msgspec.Struct, frozen=True):
    """Times in seconds from the start; null where it did not happen. entry: of the scenario, which may stand for many
    tasks. sent_by_window: targets sent in each window."""

    task: str
    entry: str
    tier: str
    weight: float
    targets: int
    sent: int
    arrived_s: float | None
    first_sent_s: float | None
    last_sent_s: float | None
    ended_s: float | None
    sent_by_window: list[int]


class Checked(msgspec.Struct, frozen=True):
    """An expectation of the scenario. wanted and found are in words."""

    what: str
    wanted: str
    found: str
    met: bool


class ViolationFigure(msgspec.Struct, frozen=True):
    """An invariant that did not hold."""

    rule: str
    at_s: float
    what: str


class Result(msgspec.Struct, frozen=True):
    """use: part of the capacity granted while there was demand; null without a capacity. repeats: envelopes for which a
    provider was called again. outcomes: targets. ledger: granted = used + returned + expired + held, in targets; calls:
    of all workers. violations: at most 100 of them; violation_count: all. replay: the command that runs it again."""

    format: int
    scenario: str
    about: str
    seed: int
    ran_s: float
    events: int
    capacity: int
    use: float | None
    tiers: dict[str, TierFigure]
    caps: dict[str, CapFigure]
    windows: Windows
    tasks: list[TaskFigure]
    outcomes: dict[str, int]
    repeats: int
    workers: dict[str, int]
    ledger: dict[str, int]
    expectations: list[Checked]
    violations: list[ViolationFigure]
    violation_count: int
    replay: str

    @property
    def good(self) -> bool:
        """Nothing was violated, and everything expected was met."""
        return not self.violation_count and all(one.met for one in self.expectations)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found
