"""A model of BookKeeper's quarantine: clients that count errors leave a bookie out for half an hour.

With the default ratio of 1.0 all clients leave a bookie out at once. Its load falls on the others, some of which then
fail too, and all come back at once: the inflow swings. With a smaller ratio only some clients leave it out.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from math import isfinite
from random import Random
from statistics import fmean, pstdev

from dispatcher.model.errors import InvalidInput

MINUTES_OF_DAY = 24 * 60


@dataclass(frozen=True, kw_only=True)
class QuarantineSettings:
    """An estate of bookies with its load. Raises InvalidInput."""

    bookies: int = 12
    clients: int = 24
    """Brokers that write."""
    ensemble: int = 2
    """Bookies that a ledger is spread over."""
    ratio: float = 1.0
    """Probability that a client that counted enough errors leaves the bookie out (bookkeeperClientQuarantineRatio)."""
    minutes: int = MINUTES_OF_DAY
    inflow: float = 1_440.0
    """MB/s over all bookies."""
    capacity: float = 150.0
    """MB/s that a bookie takes without errors: a quarter more than its part of the inflow."""
    weak_capacity: float = 100.0
    """... while it is busy with something else, such as a compaction."""
    weak_times_a_day: float = 6.0
    """Times a day that a bookie becomes weak."""
    weak_minutes: int = 15
    certain_above: float = 0.4
    """Overload, as a part of the capacity, at which each client counts enough errors in a minute: 5 by default."""
    quarantine_minutes: int = 30
    """bookkeeperClientQuarantineTimeInSeconds, 1800."""

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1:
            raise InvalidInput(f"quarantine: the ratio {self.ratio} is not between 0 and 1.")
        if min(self.bookies, self.clients, self.minutes, self.ensemble) < 1:
            raise InvalidInput("quarantine: bookies, clients, minutes and the ensemble are at least 1.")
        if not all(isfinite(rate) and rate > 0 for rate in (self.inflow, self.capacity, self.weak_capacity)):
            raise InvalidInput("quarantine: the inflow and both capacities are more than 0 MB/s.")


@dataclass(frozen=True)
class QuarantineResult:
    """The inflow of bookies over the time played, or the means over several seeds."""

    ratio: float
    std_dev: float
    """Standard deviation of the bookies' inflow within a minute, MB/s, as the mean over all minutes."""
    overloaded_minutes: float
    """Minutes of bookies above their capacity."""
    quarantines: float
    """Times that a client left a bookie out."""


class _Estate:
    """Bookies and clients as the model changes them."""

    def __init__(self, settings: QuarantineSettings, seed: int) -> None:
        self._settings, self._random = settings, Random(seed)
        self._weak_until = [0] * settings.bookies
        self._out_until = [[0] * settings.bookies for _ in range(settings.clients)]
        self.quarantines = self.overloaded_minutes = 0

    def minute(self, minute: int) -> list[float]:
        """Play one minute and return the inflow of each bookie."""
        inflow = self._inflow(minute)
        for bookie, each in enumerate(inflow):
            above = each / self._capacity(bookie, minute) - 1
            if above > 0:
                self.overloaded_minutes += 1
                self._fail(bookie, minute, min(1.0, above / self._settings.certain_above))
        return inflow

    def _inflow(self, minute: int) -> list[float]:
        inflow = [0.0] * self._settings.bookies
        for out_until in self._out_until:
            used = [bookie for bookie, until in enumerate(out_until) if until <= minute]
            if len(used) < self._settings.ensemble:  # then BookKeeper takes those in quarantine, too
                used = list(range(self._settings.bookies))
            for bookie in used:
                inflow[bookie] += self._settings.inflow / self._settings.clients / len(used)
        return inflow

    def _capacity(self, bookie: int, minute: int) -> float:
        if self._random.random() < self._settings.weak_times_a_day / MINUTES_OF_DAY:
            self._weak_until[bookie] = minute + self._settings.weak_minutes
        is_weak = minute < self._weak_until[bookie]
        return self._settings.weak_capacity if is_weak else self._settings.capacity

    def _fail(self, bookie: int, minute: int, errors: float) -> None:
        """Let clients leave a failing bookie out. errors: part of the clients that count enough of them this minute."""
        for out_until in self._out_until:
            if out_until[bookie] <= minute and self._random.random() < errors * self._settings.ratio:
                out_until[bookie] = minute + 1 + self._settings.quarantine_minutes
                self.quarantines += 1


def play_quarantine(settings: QuarantineSettings, seed: int) -> QuarantineResult:
    """Play the model. The same seed gives the same result."""
    estate = _Estate(settings, seed)
    inflows = [estate.minute(minute) for minute in range(settings.minutes)]
    std_dev = fmean(pstdev(inflow) for inflow in inflows)
    return QuarantineResult(settings.ratio, std_dev, estate.overloaded_minutes, estate.quarantines)


def compare_ratios(
    settings: QuarantineSettings, ratios: Sequence[float], seeds: Sequence[int]
) -> list[QuarantineResult]:
    """Return the mean result of each ratio over the seeds."""
    rows = []
    for ratio in ratios:
        results = [astuple(play_quarantine(replace(settings, ratio=ratio), seed))[1:] for seed in seeds]
        rows.append(QuarantineResult(ratio, *map(fmean, zip(*results, strict=True))))
    return rows


def best_of(rows: Sequence[QuarantineResult]) -> QuarantineResult:
    """Return the ratio with the fewest minutes of overload. The evenest inflow would be that without a quarantine."""
    return min(rows, key=lambda row: (row.overloaded_minutes, row.std_dev))
