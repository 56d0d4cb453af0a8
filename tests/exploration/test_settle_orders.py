"""The settle rules hold in every order of two workers' steps, with faults: the real engine over the ledger in memory."""

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import pytest

from tests.exploration.search import Found, explore
from tests.exploration.variants import BROKEN, DEEP, VARIANTS, Variant

WHOLE = (*VARIANTS, *DEEP) if os.environ.get("EXPLORE") == "deep" else VARIANTS
"""EXPLORE=deep: with more faults."""
LAWS = {
    "ack first": "I4",
    "no claim number": "I3",
    "no wait after a flush": "I3",
    "no look at the fold": "I3",
    "cancel acknowledged at once": "I5",
    "undecided writers dropped": "I4",
}
"""What is broken first when a rule is left out (the laws are those of tests/exploration/world.py)."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 if WHOLE is VARIANTS else 14_400)]


@pytest.fixture(scope="module")
def found() -> Iterator[dict[Variant, "Future[Found]"]]:
    """All of them under way, two at a time, the longest first."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield {variant: pool.submit(explore, variant) for variant in (*WHOLE, *BROKEN)}


@pytest.mark.parametrize("variant", WHOLE, ids=lambda variant: variant.name)
def test_every_order_ends_well(variant: Variant, found: dict[Variant, "Future[Found]"]) -> None:
    result = found[variant].result()
    print(result.summary())
    assert result.complete
    assert result.ends
    assert not result.violations, result.report()
    assert not result.doubts, f"these states are not told apart: {result.report()}"
    assert not result.outages_felt, result.report()


@pytest.mark.parametrize("variant", BROKEN, ids=lambda variant: variant.broken)
def test_a_rule_left_out_is_found_out(variant: Variant, found: dict[Variant, "Future[Found]"]) -> None:
    result = found[variant].result()
    print(result.report())
    assert any(law.startswith(LAWS[variant.broken]) for law in result.violations), result.report()
