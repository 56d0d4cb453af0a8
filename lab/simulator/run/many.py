"""Run many seeds at once, in separate processes."""

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from lab.simulator.run.run import SimulatedRun, replay
from lab.simulator.scenario.library import find
from lab.simulator.scenario.random_scenario import ENVELOPES, random_scenario
from lab.simulator.scenario.scenario import Scenario
from lab.simulator.verdict.figures import result_of
from lab.simulator.verdict.result import Result

AT_ONCE = 10
"""Seeds given to a process at once."""
REPORT_EVERY_S = 5.0


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one seed."""

    seed: int
    good: bool
    failures: list[str]
    """Violations and unmet expectations, as texts."""
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


@dataclass(frozen=True)
class Seeds:
    """A scenario and the range of seeds to run it with."""

    name: str
    first: int
    count: int
    processes: int = 0
    """0: one for each core."""


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
    """Disable garbage collection within the block: with that many envelopes it would take a seventh of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def run_many(seeds: Seeds, report: Callable[[str], None]) -> ManyResults:
    """Run all seeds. Report progress and, at once, each seed that fails."""
    processes = seeds.processes or os.cpu_count() or 1
    began_s = time.monotonic()
    results: list[SeedResult] = []
    reported_s = began_s
    for batch in _batches(seeds, processes):
        results += batch
        for bad in [one for one in batch if not one.good]:
            report(f"seed {bad.seed}: {bad.failures[0]}  ({bad.replay})")
        if time.monotonic() - reported_s >= REPORT_EVERY_S:
            reported_s = time.monotonic()
            report(f"{len(results):,} of {seeds.count:,} seeds, {len(results) / (reported_s - began_s):.0f} a second")
    return _sum_up(seeds, results, time.monotonic() - began_s, processes)


def _sum_up(seeds: Seeds, results: Sequence[SeedResult], took_s: float, processes: int) -> ManyResults:
    bad = sorted((one for one in results if not one.good), key=lambda one: one.seed)
    return ManyResults(
        format=1,
        scenario=seeds.name,
        seeds=seeds.count,
        first_seed=seeds.first,
        bad=bad,
        targets=sum(one.targets for one in results),
        simulated_s=round(sum(one.ran_s for one in results), 1),
        repeats=sum(one.repeats for one in results),
        took_s=round(took_s, 1),
        processes=processes,
    )


def _batches(seeds: Seeds, processes: int) -> Iterator[list[SeedResult]]:
    last = seeds.first + seeds.count
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, seeds.count), mp_context=context) as pool:
        batches = {pool.submit(run_batch, seeds.name, start, last) for start in range(seeds.first, last, AT_ONCE)}
        try:
            for batch in as_completed(batches):
                yield batch.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_batch(name: str, first: int, last: int) -> list[SeedResult]:
    """Run up to AT_ONCE seeds from `first`, below `last`, in this process."""
    with uncollected():
        return [_run_seed(name, seed) for seed in range(first, min(last, first + AT_ONCE))]


def _run_seed(name: str, seed: int) -> SeedResult:
    again = replay(name, seed)
    try:
        result = run_one(name, seed)
    except Exception as error:  # A crash of the engine is a result like any other: the seed replays it.
        return SeedResult(seed=seed, good=False, failures=[f"{type(error).__name__}: {error}"], replay=again)
    failures = [f"{one.rule}: {one.what} (at {one.at_s:.3f} s)" for one in result.violations]
    failures += [f"{one.what}: wanted {one.wanted}, found {one.found}" for one in result.expectations if not one.met]
    sent = sum(tier.sent for tier in result.tiers.values())
    return SeedResult(
        seed=seed,
        good=result.good,
        failures=failures,
        replay=again,
        targets=sent,
        ran_s=result.ran_s,
        repeats=result.repeats,
    )
