"""Make each mutation of the list in a copy of the tree and ask the tests of its area about it: one has to fail.

python -m tests.mutations                # all of them
python -m tests.mutations 'snapshot/*'   # by name
"""

import argparse
import fnmatch
import os
import queue
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.mutations.catalog import Area, DoesNotApply, Mutation, areas
from tests.mutations.trees import FAILED, PASSED, TOO_LONG, Tree

KILLED, SURVIVED, EXCUSED, OUT_OF_DATE, BROKEN = "killed", "SURVIVED", "survives", "OUT OF DATE", "BROKEN"
GOOD = (KILLED, EXCUSED)


class Chosen(NamedTuple):
    """A mutation that is to be made."""

    name: str
    area: Area
    mutation: Mutation


class Result(NamedTuple):
    """verdict: one of those above. about: the test that failed, or the reason why none did."""

    name: str
    verdict: str
    about: str
    took_s: float


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 if every mutation was killed, or survives for a reason that the list gives."""
    options = _options(arguments)
    chosen = [one for one in _all() if any(fnmatch.fnmatch(one.name, pattern) for pattern in options.names)]
    if not chosen:
        print(f"No mutation is named {' or '.join(options.names)}. `--list` names them.", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{one.name:50}  {one.mutation.why}" for one in chosen))
        return 0
    with TemporaryDirectory(prefix="fairlane-mutations-") as folder:
        trees = [Tree(Path(folder, str(number)).resolve()) for number in range(options.processes)]
        if not options.unchecked and not _passes_without(trees[0], chosen, options.limit_s):
            return 2
        results = _results(chosen, trees, options.limit_s)
    _show(results)
    return 0 if all(result.verdict in GOOD for result in results) else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=["*"], help="patterns, such as 'snapshot/*' (default: all)")
    parser.add_argument("--processes", type=positive_number, default=os.cpu_count() or 1, help="test runs at once")
    parser.add_argument("--limit-s", type=float, default=300.0, help="seconds one test run may take")
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests without a mutation first")
    parser.add_argument("--list", action="store_true", help="name the mutations and make none")
    return parser.parse_args(arguments)


def positive_number(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def _all() -> Iterable[Chosen]:
    for name, area in areas().items():
        for mutation in area.mutations:
            yield Chosen(f"{name}/{mutation.name}", area, mutation)


def _passes_without(tree: Tree, chosen: Sequence[Chosen], limit_s: float) -> bool:
    """A test that fails anyway would seem to kill everything."""
    tests = dict.fromkeys(test for one in chosen for test in one.area.asked(one.mutation))
    print(f"Without a mutation: {len(tests)} test files", flush=True)
    run = tree.run(list(tests), 3 * limit_s)
    if run.code != PASSED:
        print(f"{run.output}\nThe tests fail without a mutation. Repair them first.", file=sys.stderr)
    return run.code == PASSED


def _results(chosen: Sequence[Chosen], trees: Sequence[Tree], limit_s: float) -> list[Result]:
    free: queue.Queue[Tree] = queue.Queue()
    for tree in trees:
        free.put(tree)

    def test(one: Chosen) -> Result:
        tree = free.get()
        try:
            result = _tested(one, tree, limit_s)
        finally:
            free.put(tree)
        print(f"{result.verdict:12} {result.took_s:5.0f} s  {result.name}", flush=True)
        return result

    with ThreadPoolExecutor(len(trees)) as pool:
        try:
            return list(pool.map(test, chosen))
        except BaseException:  # Ctrl-C: those under way are waited for
            for tree in trees:
                tree.stop()
            raise


def _tested(one: Chosen, tree: Tree, limit_s: float) -> Result:
    started_s = time.monotonic()
    reason = one.mutation.survives
    try:
        with tree.with_mutation(one.mutation):
            run = tree.run(one.area.asked(one.mutation), limit_s)
    except DoesNotApply as error:
        return Result(one.name, BROKEN, str(error), 0.0)
    took_s = time.monotonic() - started_s
    if run.code == PASSED:
        return Result(one.name, EXCUSED if reason else SURVIVED, reason or one.mutation.why, took_s)
    if run.code not in (FAILED, TOO_LONG):
        return Result(one.name, BROKEN, f"pytest ends with {run.code}: {run.output.strip()[-200:]!r}", took_s)
    if reason:
        return Result(one.name, OUT_OF_DATE, f"it is killed, by {run.failed}: take its reason out of the list", took_s)
    return Result(one.name, KILLED, run.failed or f"the time limit of {limit_s:g} s", took_s)


def _show(results: Sequence[Result]) -> None:
    print()
    for result in sorted(results, key=lambda result: (result.verdict not in GOOD, result.name)):
        print(f"{result.verdict:12} {result.name:50} {result.about}")
    counts = {verdict: sum(one.verdict == verdict for one in results) for verdict in (*GOOD, SURVIVED)}
    bad = len(results) - counts[KILLED] - counts[EXCUSED] - counts[SURVIVED]
    print(
        f"\n{len(results)} mutations: {counts[KILLED]} killed, {counts[EXCUSED]} survive for a written reason, "
        f"{counts[SURVIVED]} survive without one, {bad} could not be judged or have an outdated reason"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
