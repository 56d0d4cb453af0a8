"""The tests that only `make test-all` runs exist."""

import re
from pathlib import Path

import pytest

from tests.thorough import THOROUGH

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("pattern", THOROUGH)
def test_a_pattern_names_a_test(pattern: str) -> None:
    file, _, name = pattern.partition("::")
    begins = re.split(r"[*[]", name)[0]
    assert f"def {begins}" in (ROOT / file).read_text(encoding="utf-8")
