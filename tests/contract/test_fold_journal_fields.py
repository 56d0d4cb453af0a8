"""Fields of outcome records for the journal alone change nothing in a fold."""

import msgspec
import pytest

from dispatcher.wire.outcome import Mixed, Named, Outcomes, Run
from tests.contract.ledger_worlds import LawWorld, Worlds, fold, mixed, outcomes, run

NAMED = [
    Named(writer="0", attempt=0, sequence=4, positions=[1], targets=["tok\u00e9n"], reasons=["unregistered"]),
    Named(writer="0", attempt=0, sequence=5, positions=None, targets=["a", "b", "c"]),
]


def state(world: LawWorld) -> object:
    return world.counts("t"), world.stats()


@pytest.mark.parametrize(
    "parts",
    [[run(0, 4, size=3)], [run(0, 4, size=3), mixed(4, [0, 1, 9])], [mixed(5, [1, 1, 1])]],
    ids=["runs", "both", "mixed"],
)
def test_the_fold_passes_over_what_is_for_the_journal(worlds: Worlds, parts: list[Run | Mixed]) -> None:
    plain, journaled = worlds(), worlds()
    record = outcomes("t", *parts)
    extended = msgspec.structs.replace(record, app="shop", latency_ms=1_234_567_890, named=NAMED)
    assert isinstance(extended, Outcomes)
    for world, one in ((plain, record), (journaled, extended)):
        world.add("t")
        world.seal("t", 18)
        fold(world, one)
    assert state(plain) == state(journaled)
