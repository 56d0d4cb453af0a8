"""A state of the ledger that forgets too much is found out; the use-by is checked by the code that ships."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from dispatcher.ports import Batch
from tests.exploration import plain_view
from tests.exploration.envelopes import SOON, envelope_of, first
from tests.exploration.rules import left_out
from tests.exploration.search import explore
from tests.exploration.use_by import UseByCheck
from tests.exploration.variants import PLAIN, VARIANTS
from tests.unit.dispatch.consumers.envelopes import batch

COPY = next(variant for variant in VARIANTS if variant.name.startswith("a copy of it"))
USE_BY_S = 2.0


@pytest.mark.parametrize("keys", ["touched:", "final:", "open:", "claim:"])
def test_a_state_that_forgets_what_makes_a_difference_is_doubted(keys: str) -> None:
    variant = replace(COPY, faults=0, doubts=1)
    assert not explore(variant).doubts
    with patch.object(plain_view, "FORGOTTEN", (*plain_view.FORGOTTEN, plain_view.key_of(keys))):
        assert explore(variant).doubts


def test_a_call_begins_until_its_use_by() -> None:
    assert UseByCheck().allows(_batch(), USE_BY_S - 0.001)
    assert not UseByCheck().allows(_batch(), USE_BY_S)


def test_without_the_rule_a_call_begins_at_any_time() -> None:
    with left_out("nothing is sent past its use-by"):
        assert UseByCheck().allows(_batch(), USE_BY_S)


def _batch() -> Batch:
    return batch([envelope_of(first(), SOON, PLAIN)], "null", USE_BY_S)
