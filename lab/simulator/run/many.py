"""Run many seeds at once, in separate processes."""

import gc
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial

import msgspec

from lab.simulator.findings.figures import result_of
from lab.simulator.findings.result import Result
from lab.simulator.run.run import SimulatedRun, replay
from lab.simulator.scenario.library import find
from lab.simulator.scenario.random_scenario import ENVELOPES, random_scenario
from lab.simulator.scenario.scenario import Scenario

AT_ONCE = 10
"""Seeds given to a process at once."""
REPORT_EVERY_S = 5.0


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one seed."""

    seed: int
    good: bool
    failures: list[str]
    """Violations, as texts."""
    replay: str
    targets: int = 0
    ran_s: float = 0.0
    repeats: int = 0


class ManyResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of many seeds."""

    format: int
    scenario: str
    seeds: int
    first_seed: int
    bad: list[SeedResult]
    """The seeds that failed."""
    targets: int
    """Targets sent in all runs."""
    simulated_s: float
    """Virtual time that passed in the runs."""
    repeats: int
    took_s: float
    """Real time that passed."""
    processes: int


def scenario_for(name: str, seed: int) -> Scenario:
    """Return a scenario by name, from a file, or generated (`random`, `random-large`).

    Raises NotFound, InvalidInput.
    """
    return random_scenario(seed, name) if name in ENVELOPES else find(name)


def run_one(name: str, seed: int) -> Result:
    """Run one seed. Return its figures."""
    with uncollected():
        return result_of(SimulatedRun(scenario_for(name, seed), seed, source=name).go())


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect garbage after the block alone, and only what was made in it.

    With that many envelopes it would take a seventh of the time in between.
    """
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()


def run_many(name: str, seeds: range, processes: int, report: Callable[[str], None]) -> ManyResults:
    """Run a scenario with all seeds. Report progress and, at once, each seed that fails."""
    began_s = reported_s = time.monotonic()
    results: list[SeedResult] = []
    with ProcessPoolExecutor(min(processes, len(seeds)), mp_context=multiprocessing.get_context("spawn")) as pool:
        for result in pool.map(partial(run_seed, name), seeds, chunksize=AT_ONCE):
            results.append(result)
            if not result.good:
                report(f"seed {result.seed}: {result.failures[0]}  ({result.replay})")
            now_s = time.monotonic()
            if now_s - reported_s >= REPORT_EVERY_S:
                reported_s = now_s
                report(f"{len(results):,} of {len(seeds):,} seeds, {len(results) / (now_s - began_s):.0f} a second")
    return ManyResults(
        format=1,
        scenario=name,
        seeds=len(seeds),
        first_seed=seeds.start,
        bad=[each for each in results if not each.good],
        targets=sum(each.targets for each in results),
        simulated_s=round(sum(each.ran_s for each in results), 1),
        repeats=sum(each.repeats for each in results),
        took_s=round(time.monotonic() - began_s, 1),
        processes=processes,
    )


def run_seed(name: str, seed: int) -> SeedResult:
    """Run one seed. Return what `run_many` tells of it."""
    again = replay(name, seed)
    try:
        result = run_one(name, seed)
    except Exception as error:  # A crash of the engine is a result like any other: the seed replays it.
        return SeedResult(seed=seed, good=False, failures=[f"{type(error).__name__}: {error}"], replay=again)
    return SeedResult(
        seed=seed,
        good=result.good,
        failures=[f"{violation.rule}: {violation.what} (at {violation.at_s:.3f} s)" for violation in result.violations],
        replay=again,
        targets=sum(tier.sent for tier in result.tiers.values()),
        ran_s=result.ran_s,
        repeats=result.repeats,
    )
