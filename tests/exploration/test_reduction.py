"""Leaving out orders that nobody can see, and taking worlds for one that go on alike, hides nothing: where a world is
small enough to be searched without this, both searches end in the same outcomes, and both find what is broken."""

from collections import defaultdict
from dataclasses import replace

import pytest

from tests.exploration.footprint import Numbers
from tests.exploration.menus import FAULT, SAME, WRONG
from tests.exploration.rules import left_out
from tests.exploration.search import Found, Search
from tests.exploration.variants import BROKEN, VARIANTS, Variant

pytestmark = pytest.mark.slow
LARGER = ("one envelope", "cancelled in a shared lane")
NO_FAULT = [replace(variant, faults=0) for variant in VARIANTS if variant.hands == 1 or variant.together]
ONE_FAULT = [replace(variant, faults=1) for variant in VARIANTS if variant.name in LARGER]
TWO_FAULTS = [replace(variant, kinds=("crash", "outage")) for variant in VARIANTS if variant.name == "one envelope"]


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


def test_what_is_remembered_of_a_step_is_what_it_does() -> None:
    """Whatever the parts are that it was found out without."""
    variant = Variant("one that may be cancelled", faults=1, hands=2, events=("cancel",))
    search = Search(variant)
    search.run()
    remembered = steps_by_world(search)
    for place, numbers in enumerate(search.worlds.T.tolist()):
        world = search.table.world(dict(enumerate(numbers)))
        told = [(step.fault, search.table.numbers(step.world), step.wrong) for step in search.steps.of(world)]
        assert sorted(remembered[place]) == sorted(told)


def steps_by_world(search: Search) -> dict[int, list[tuple[bool, Numbers, str]]]:
    found = defaultdict(list)
    places, steps = search.menus.of(search.worlds)
    for place, step in zip(places.tolist(), steps.T.tolist(), strict=True):
        before = search.worlds[:, place].tolist()
        after = tuple(old if new == SAME else new for old, new in zip(before, step, strict=False))
        found[place].append((bool(step[FAULT]), after, search.menus.laws[step[WRONG]]))
    return found
