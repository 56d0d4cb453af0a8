"""A seal counts once the control topic has been read up to it: an earlier one may still be unread, and would win."""

from itertools import count, permutations, takewhile

from dispatcher.wire.control import ControlRecord
from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import FORMAT, CloseTask
from tests.contract.ledger_worlds import LawWorld, Worlds, ask, fold, outcomes, own_lane, run, task_record, want
from tests.contract.registry_records import sealed

WINNER, LATER = sealed("t", 4, ["a", "b"]), sealed("t", 2, ["b"])
DONE = outcomes("t", run(0, 2, writer="a"))
REST = outcomes("t", run(0, 2, writer="b"))
NEEDED = {0, 1, "a", "b"}
"""Steps in `Applied` that are needed: all but the later seal."""


def asked(world: LawWorld, number: int, writer: str = "a") -> list[tuple[int, int]]:
    """Return the ledger's answer about two envelopes of a writer."""
    return world.statuses(number, ask(own_lane("t"), want("t", 0, 2, writer=writer)))


def stored(world: LawWorld, *records: ControlRecord) -> list[tuple[str, ControlRecord]]:
    """Records in the control topic, which nobody has read yet."""
    return [(world.control.append(record), record) for record in records]


def test_envelopes_that_a_seal_leaves_out_are_kept_while_an_earlier_seal_may_be_unread(world: LawWorld) -> None:
    world.add("t", hold_until_sealed=True)
    (first, winner), (second, later) = stored(world, WINNER, LATER)
    world.registry.control.apply(second, later)
    assert asked(world, 1) == asked(world, 2, "b") == [(Status.HELD, 2)]
    world.read_control(first, winner)
    assert asked(world, 3) == [(Status.GRANTED, 2)]
    world.read_control(second, later)
    assert asked(world, 4, "b") == [(Status.GRANTED, 2)]


def test_no_task_ends_by_a_seal_that_may_not_be_the_first(live: LawWorld) -> None:
    (first, winner), (second, later) = stored(live, WINNER, LATER)
    live.registry.control.apply(second, later)
    assert fold(live, REST).finished == []
    assert live.registry.tasks.complete() == []
    assert live.read_control(first, winner) == live.read_control(second, later) == []
    assert fold(live, DONE).finished == ["t"]


def test_a_cancelled_task_is_closed_by_the_seal_that_counts(live: LawWorld) -> None:
    live.change("t", "cancelled", "1")
    (first, winner), (second, later) = stored(live, WINNER, LATER)
    live.registry.control.apply(second, later)
    assert list(live.ledger.closable()) == []
    fold(live, CloseTask(FORMAT, "t", 4, 1_700_000_000_600))
    assert live.counts("t")["cancelled"] == 0
    live.read_control(first, winner)
    live.read_control(second, later)
    assert [found.task for found in live.ledger.closable()] == ["t"]
    fold(live, CloseTask(FORMAT, "t", 4, 1_700_000_000_700))
    assert live.counts("t")["cancelled"] == 4


class Applied:
    """Some of a task's records and outcomes, applied in any order while the cursor follows behind."""

    def __init__(self, world: LawWorld) -> None:
        self.world = world
        self.records = stored(world, task_record("t", hold_until_sealed=True), WINNER, LATER)
        self.outcomes = {"a": DONE, "b": REST}
        self.steps: list[int | str] = [*range(len(self.records)), *self.outcomes]
        self.done: set[int | str] = set()
        self.numbers = count(1)

    def apply(self, step: int | str) -> None:
        if isinstance(step, int):
            self.world.registry.control.apply(*self.records[step])
        else:
            fold(self.world, self.outcomes[step])
        self.done.add(step)
        read = list(takewhile(self.done.__contains__, range(len(self.records))))
        if read:
            self.world.view.command("HSET", self.world.view.keys.control, "cursor", self.records[read[-1]][0])

    def dropped(self) -> set[str]:
        """Writers whose envelopes workers may drop."""
        return {
            writer for writer in self.outcomes if asked(self.world, next(self.numbers), writer)[0][0] == Status.DROP
        }


def test_in_every_order_the_first_seal_counts_and_nothing_of_it_is_dropped(worlds: Worlds) -> None:
    """Workers ask after each step, and the task ends with the last one that it needs."""
    for order in permutations(range(5)):
        applied = Applied(worlds())
        for index in order:
            applied.apply(applied.steps[index])
            assert applied.dropped() <= applied.done, order
            assert applied.world.registry.tasks.complete() == (["t"] if applied.done >= NEEDED else []), order
        assert applied.world.counts("t")["sent"] == 4, order
