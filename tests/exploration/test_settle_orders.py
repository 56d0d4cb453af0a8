"""The settle rules hold in every order of two workers' steps, with faults: real engine, ledger and fold in memory.

Each variant (tests/exploration/variants.py) is a small world, explored whole: two workers, one or two envelopes of two
targets, two or three tries, what may happen to the task, and up to two faults of seven. The laws:

I1  what the view counts is what the outcome topic says: of each target the first final outcome
I3  the provider is called twice for a target in a round only if a worker died or stalled between the look at the use-by
    and the storing of its record; I3b: the same for a target it had accepted before, unless it was reported as unknown
    and may be tried again. If it is given up then, a crash is no excuse either
I4  from every state a good end can be reached without another fault: completed, lanes empty, nobody busy, no claim left
I5  nothing is granted after a cancel was acknowledged
I6  completed only with all outcomes in the topic
I7  nothing is recorded cancelled that the provider had accepted, unless excused as in I3
I8  nothing is sent for a writer that the seal leaves out
I9  nothing is granted while the view holds a pause
I10 of a trial send only the first envelopes are granted before the view holds its go
I11 no envelope is granted with a target that the view knows to be final
I12 nothing is sent before it is due

That they can fail is shown by leaving out one rule after the other. What is broken is printed as the shortest sequence
of steps that breaks it, with the command that goes through them again, state by state.

FAIRLANE_TEST_EXPLORE=deep explores three faults, and more that is in hand: ten seconds more.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.exploration.search import Found, explore
from tests.exploration.variants import BROKEN, DEEP, IS_DEEP, VARIANTS, Variant

WHOLE = (*VARIANTS, *DEEP) if IS_DEEP else VARIANTS
Result = Callable[[Variant], Found]
pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def result(request: pytest.FixtureRequest) -> Iterator[Result]:
    """All that are asked for under way, two at a time."""
    items = [item for item in request.session.items if request.node in item.iter_parents()]
    asked: list[Variant] = [item.callspec.params["variant"] for item in items if isinstance(item, pytest.Function)]  # type: ignore[misc]
    pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
    found = {variant.name: pool.submit(explore, variant) for variant in asked}
    yield lambda variant: found[variant.name].result()
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("variant", WHOLE, ids=lambda variant: variant.name)
def test_every_order_ends_well(variant: Variant, result: Result) -> None:
    found = result(variant)
    print(found.summary())
    assert found.complete
    assert found.ends
    assert not found.violations, found.report()
    assert not found.doubts, f"these states are not told apart: {found.report()}"
    assert not found.outages_felt, found.report()


@pytest.mark.parametrize("variant", BROKEN, ids=lambda variant: variant.name)
def test_a_rule_left_out_is_found_out(variant: Variant, result: Result) -> None:
    found = result(variant)
    print(found.report())
    assert any(law.startswith(f"{variant.breaks}:") for law in found.violations), found.report()
