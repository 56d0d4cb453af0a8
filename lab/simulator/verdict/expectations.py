"""Compare a scenario's expectations with the figures of a run."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from lab import laws
from lab.simulator.scenario.scenario import Expectation
from lab.simulator.verdict.figures import Figures
from lab.simulator.verdict.result import Checked


def check_expectations(figures: Figures) -> list[Checked]:
    """Compare each expectation of the scenario with the figures. Return the results in the scenario's order."""
    return [checked for one in figures.scenario.expect for checked in _Check(figures, one).all()]


class _Check:
    def __init__(self, figures: Figures, expected: Expectation) -> None:
        self._figures = figures
        self._expected = expected
        self._from_us = int(expected.from_s * 1e6)
        self._to_us = min(figures.end_us, int((expected.to_s or 1e9) * 1e6))

    def all(self) -> Iterator[Checked]:
        yield from self._shares()
        yield from self._rates()
        yield from self._floors()
        yield from self._ceilings()
        yield from self._endings()

    @property
    def _when(self) -> str:
        return f"from {self._expected.from_s:g} to {self._to_us / 1e6:g} s"

    # ------------------------------------------------------------- shares and rates
    def _shares(self) -> Iterator[Checked]:
        expected, names = self._expected, self._expected.shares or {}
        for since_us, to_us in self._windows() if names else ():
            shares = laws.shares({name: self._sent(name, since_us, to_us) for name in names})
            deviation = max(abs(shares[name] - percent) for name, percent in names.items())
            if expected.window_s is None or deviation > expected.within or to_us + 1 >= self._to_us:
                yield Checked(
                    f"shares from {since_us / 1e6:g} to {to_us / 1e6:g} s",
                    ", ".join(f"{name} {percent:g} %" for name, percent in names.items()) + f" ±{expected.within:g}",
                    ", ".join(f"{name} {percent:.2f} %" for name, percent in shares.items()),
                    deviation <= expected.within,
                )

    def _windows(self) -> list[tuple[int, int]]:
        """Return windows of window_s, starting every quarter of that; or the whole time."""
        if self._expected.window_s is None:
            return [(self._from_us, self._to_us)]
        step_us = int(self._expected.window_s * 1e6)
        starts = range(self._from_us, max(self._from_us, self._to_us - step_us) + 1, step_us // 4)
        last = max(self._from_us, self._to_us - step_us)
        return [(start, start + step_us) for start in sorted({*starts, last})]

    def _rates(self) -> Iterator[Checked]:
        for name, rate in (self._expected.rate or {}).items():
            rate_sent = self._sent(name, self._from_us, self._to_us) * 1e6 / max(1, self._to_us - self._from_us)
            met = abs(rate_sent - rate) <= rate * self._expected.within / 100
            expected = f"{rate:g} targets/s ±{self._expected.within:g} %"
            yield Checked(f"rate of {name} {self._when}", expected, f"{rate_sent:.1f} targets/s", met)

    def _sent(self, name: str, from_us: int, to_us: int) -> int:
        """Return the targets sent of a tier, or of tasks (`big`, `small-*`)."""
        figures = self._figures
        if name in figures.by_tier:
            chosen = [figures.by_tier[name]]
        else:
            chosen = [amounts for task, amounts in figures.by_task.items() if fnmatchcase(task, name)]
        return sum(one.targets for amounts in chosen for one in amounts if from_us <= one.at_us < to_us)

    # ------------------------------------------------------------- bounds
    def _floors(self) -> Iterator[Checked]:
        expected = self._expected
        if expected.min_use is not None:
            use = self._figures.use(self._from_us, self._to_us)
            met = use is not None and use >= expected.min_use
            yield Checked(f"use of capacity {self._when}", f"at least {expected.min_use:.1%}", _percent(use), met)
        for tier, minimum in (expected.min_jain or {}).items():
            jain = self._figures.jain(str(tier), self._from_us, self._to_us)
            met = jain is not None and jain >= minimum
            yield Checked(f"Jain index of {tier} {self._when}", f"at least {minimum:g}", str(jain), met)

    def _ceilings(self) -> Iterator[Checked]:
        expected, figures = self._expected, self._figures
        if expected.max_gap is not None:
            gaps = [gap for tier in figures.by_tier if (gap := figures.gap(tier, self._from_us, self._to_us))]
            worst = max((gap.ratio for gap in gaps), default=0.0)
            met = worst <= expected.max_gap
            yield Checked(
                f"longest gap {self._when}", f"at most {expected.max_gap:g} of the bound", f"{worst:.2f}", met
            )
        if expected.max_repeats is not None:
            repeats = figures.journal.repeats
            yield Checked("repeats", f"at most {expected.max_repeats}", str(repeats), repeats <= expected.max_repeats)
        if expected.max_calls_per_target is not None:
            calls = figures.journal.lease_calls / max(1, figures.journal.counts["used"])
            met = calls <= expected.max_calls_per_target
            yield Checked("ledger calls a target", f"at most {expected.max_calls_per_target:g}", f"{calls:.4f}", met)

    def _endings(self) -> Iterator[Checked]:
        service = self._figures.run.service
        for pattern, longest_s in (self._expected.done_within_s or {}).items():
            tasks = [task for name, task in service.tasks.items() if fnmatchcase(name, pattern)]
            took = [service.ended.get(task.name, 1 << 60) / 1e6 - task.arrives_s for task in tasks]
            worst = max(took, default=float("inf"))
            slowest = f"{worst:.2f} s" if worst < 1e9 else "not at all"
            yield Checked(f"{pattern} done", f"within {longest_s:g} s of arriving", slowest, worst <= longest_s)


def _percent(part: float | None) -> str:
    return "no demand" if part is None else f"{part:.2%}"
