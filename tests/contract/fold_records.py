"""Outcomes of a few small envelopes, for tests of what is made of them."""

from hypothesis import strategies as st

from dispatcher.wire.outcome import RETRY, Mixed, Run
from tests.contract.ledger_worlds import mixed, run

SIZE = 3
"""Targets in each envelope."""
final = st.sampled_from([0, 1, 2])
codes = st.sampled_from([0, 1, 2, RETRY])


@st.composite
def parts(draw: st.DrawFn) -> Run | Mixed:
    """Draw a run or a mixed outcome of the first twelve envelopes of a task."""
    first, attempt = draw(st.integers(0, 11)), draw(st.integers(0, 2))
    if draw(st.booleans()):
        return run(first, draw(st.integers(1, 12 - first)), draw(final), size=SIZE, attempt=attempt)
    places = sorted(draw(st.sets(st.integers(0, SIZE - 1), min_size=1)))
    return mixed(first, [draw(codes) for _ in places], attempt=attempt, size=SIZE, positions=places)
