"""docs/internals/ledger.md names the tests of each law: they exist, in the folders that it says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "internals" / "ledger.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("### Laws and where they are tested")[2]
ROWS = [line.split("|")[1:-1] for line in SECTION.partition("\n##")[0].splitlines() if line.startswith("| ")][1:]
LAWS = 8


def names_in(folder: str) -> set[str]:
    files = (ROOT / folder).rglob("test_*.py")
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)}


def named(cell: str) -> set[str]:
    return set(re.findall(r"`(test_\w+)`", cell))


def test_each_law_has_a_row_and_a_test() -> None:
    numbered = [row for row in ROWS if row[0].strip()[0].isdigit()]
    assert [int(row[0].split()[0]) for row in numbered] == list(range(1, LAWS + 1))
    for _, stateful, *others in numbered:
        assert named(stateful)
        assert named(" ".join([stateful, *others]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip()[:20])
def test_what_is_named_exists_where_it_is_said_to_be(row: list[str]) -> None:
    _, stateful, single, others = row
    assert named(stateful) | named(single) <= names_in("tests/contract")
    assert named(others) <= names_in("tests")
