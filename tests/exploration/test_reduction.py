"""Leaving out orders that nobody can see, and taking worlds for one that go on alike, hides nothing: where a world is
small enough to be searched without this, both searches end in the same outcomes, and both find what is broken.

FAIRLANE_TEST_EXPLORE=deep checks 1.8 million worlds more, each against the one that represents it: five minutes more.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest

from tests.exploration.alike import Graph
from tests.exploration.envelopes import results
from tests.exploration.footprint import Numbers
from tests.exploration.menus import FAULT, SAME, WRONG
from tests.exploration.rows import Rows
from tests.exploration.rules import left_out
from tests.exploration.search import Found, Search
from tests.exploration.variants import BROKEN, IS_DEEP, VARIANTS, Variant
from tests.exploration.world import OUTCOME, WorldState

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
BY_NAME = {variant.name: variant for variant in (*VARIANTS, *BROKEN)}
ONE, CANCELLED = BY_NAME["one envelope"], BY_NAME["cancelled in a shared lane"]
NO_FAULT = [replace(variant, faults=0) for variant in VARIANTS if variant.hands == 1 or variant.together]
ONE_FAULT = [replace(variant, faults=1) for variant in (ONE, CANCELLED)]
TWO_FAULTS = [replace(ONE, kinds=("crash", "lost answer"))]
CALLED_TWICE = replace(BY_NAME["without: nothing is sent past its use-by"], hands=1)
STOOD_FOR = [ONE_FAULT[0], replace(CANCELLED, kinds=("flush",)), CALLED_TWICE]
if IS_DEEP:
    STOOD_FOR += [ONE, *(replace(variant, faults=1) for variant in VARIANTS if variant.hands == 1)]


def both(variant: Variant) -> tuple[Found, Found]:
    with left_out(variant.broken):
        reduced, whole = (Search(variant, reduced=reduced) for reduced in (True, False))
        return reduced.run(first_only=bool(variant.broken)), whole.run(first_only=bool(variant.broken))


@pytest.mark.parametrize(
    "variant", [*NO_FAULT, *ONE_FAULT, *TWO_FAULTS], ids=lambda variant: f"{variant.name}, {variant.faults}"
)
def test_the_reduced_search_comes_to_the_same_ends(variant: Variant) -> None:
    reduced, whole = both(variant)
    assert reduced.states < whole.states
    assert reduced.outcomes == whole.outcomes
    assert (reduced.violations, whole.violations) == ({}, {})


@pytest.mark.parametrize("variant", BROKEN, ids=lambda variant: variant.name)
def test_both_searches_find_the_same_law_broken(variant: Variant) -> None:
    reduced, whole = both(variant)
    assert [law.partition(":")[0] for law in reduced.violations] == [variant.breaks]
    assert [law.partition(":")[0] for law in whole.violations] == [variant.breaks]


@pytest.mark.parametrize("variant", STOOD_FOR, ids=lambda variant: f"{variant.name}, {variant.faults}")
def test_a_world_goes_on_like_the_one_that_stands_for_it(variant: Variant) -> None:
    """And like the one in which the workers' names are exchanged."""
    search = Search(variant, reduced=False)
    with left_out(variant.broken):
        search.run()
        count, graph = search.worlds.shape[1], Graph(search)
        plain = graph.add(changed(search, count, search.steps.plain))
        exchanged = graph.add(changed(search, count, search.steps.exchanged))
        robbed = graph.add(changed(search, count, partial(without_last_attempts, search)))
    parts = graph.parts()
    assert (plain != np.arange(count)).any()
    assert (parts[plain] == parts[:count]).all()
    assert (parts[exchanged] == parts[:count]).all()
    assert (parts[robbed] != parts[:count]).any()


def without_last_attempts(search: Search, world: WorldState) -> WorldState:
    """Return the world after its outcome topic lost the records of attempt 1 that are still to be read.

    Records of attempt 0 stay: they are always read first, and without them attempt 1 leads to attempts beyond the last.
    """
    bodies = search.steps.machines.bodies

    def is_kept(entry: tuple[Any, ...]) -> bool:
        return entry[0] != OUTCOME or all(kind[2] == 0 for kind, _ in results(bodies[entry[1]]))

    return world._replace(rest=tuple(filter(is_kept, world.rest)))


def changed(search: Search, count: int, change: Callable[[WorldState], WorldState]) -> Rows:
    """Yield this number of worlds, each after a change."""
    return np.array([search.table.numbers(change(world)) for world in islice(search.each(), count)], np.int32).T


def test_what_is_remembered_of_a_step_is_what_it_does() -> None:
    """Whatever the parts are that it was found out without."""
    variant = Variant(name="one that may be cancelled", faults=1, hands=2, events=("cancel",))
    search = Search(variant)
    search.run()
    remembered = steps_by_world(search)
    for place, numbers in enumerate(search.worlds.T.tolist()):
        world = search.table.world(dict(enumerate(numbers)))
        expected = [(step.fault, search.table.numbers(step.world), step.wrong) for step in search.steps.of(world)]
        assert sorted(remembered[place]) == sorted(expected)


def steps_by_world(search: Search) -> dict[int, list[tuple[bool, Numbers, str]]]:
    found = defaultdict(list)
    places, steps = search.menus.of(search.worlds)
    for place, step in zip(places.tolist(), steps.T.tolist(), strict=True):
        before = search.worlds[:, place].tolist()
        after = tuple(old if new == SAME else new for old, new in zip(before, step, strict=False))
        found[place].append((bool(step[FAULT]), after, search.menus.laws[step[WRONG]]))
    return found
