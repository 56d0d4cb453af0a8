"""The list of mutations fits the code as it is: each can be made, and the tests that are asked about it are there."""

import pytest

from tests.mutations.catalog import ROOT, Area, Mutation, areas, mutated

AREAS = areas()
LISTED = [
    pytest.param(area, mutation, id=f"{name}/{mutation.name}")
    for name, area in AREAS.items()
    for mutation in area.mutations
]


@pytest.mark.parametrize(("area", "mutation"), LISTED)
def test_every_mutation_can_be_made(area: Area, mutation: Mutation) -> None:
    assert mutated((ROOT / mutation.file).read_text(encoding="utf-8"), mutation) != ""
    assert mutation.old != mutation.new
    assert not mutation.file.startswith("tests/")


@pytest.mark.parametrize("area", AREAS.values(), ids=AREAS)
def test_what_is_asked_about_a_mutation_are_test_files(area: Area) -> None:
    """Or folders that hold some: one whose tests are gone may stay behind with what Python compiled."""
    asked = {test for mutation in area.mutations for test in area.asked(mutation)}.union(area.tests)
    missing = [test for test in asked if not (ROOT / test).is_file() and not any((ROOT / test).rglob("test_*.py"))]
    assert missing == []


@pytest.mark.parametrize("area", AREAS.values(), ids=AREAS)
def test_names_tell_mutations_apart(area: Area) -> None:
    assert len({mutation.name for mutation in area.mutations}) == len(area.mutations)
