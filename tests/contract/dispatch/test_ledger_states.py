"""Answers for envelopes of tasks that are paused, cancelled, expired, ended, unknown, or of writers not counted."""

import pytest

from dispatcher.wire.lease import Closable, LaneAsk, Status
from dispatcher.wire.outcome import RETRY, CloseTask, EpochMark, Outcome
from tests.contract.ledger_worlds import (
    EPOCH,
    LawWorld,
    ask,
    ask_own,
    ask_retry,
    ask_shared,
    fold,
    mixed,
    own_lane,
    run,
    statuses,
    want,
)

SOON_MS = 5_000


def word(world: LawWorld, asked: LaneAsk) -> list[tuple[int, int]]:
    """(status, count) of the pieces of the one want, asked for by a worker of its own."""
    return [piece[:2] for piece in world.word(asked)]


@pytest.mark.parametrize(
    "waits",
    ["paused", "scheduled", "held"],
)
def test_a_waiting_task_is_kept_out_and_spends_nothing(world: LawWorld, waits: str) -> None:
    start_ms = world.clock.wall_ms() + SOON_MS if waits == "scheduled" else 0
    world.add("t", start_ms=start_ms, hold_until_sealed=waits == "held")
    world.set_capacity(1_000)
    if waits == "paused":
        world.change("t", "paused", "1")
    world.record("t", mixed(0, [RETRY]))
    assert word(world, ask_own("t", 1, 5)) == [(Status.PARKED, 5)]
    answer = world.lease(900, ask_retry(want("t", 0, 1, attempt=1)), worker="other")
    piece = answer.lanes[0][0][0]
    assert (piece.status, piece.lane) == (Status.MOVE, own_lane("t"))
    assert not any(name.startswith("granted") for name in world.stats())
    assert world.claims("t") == 0
    world.change("t", "paused", "0")
    world.seal("t", 10)
    world.advance(SOON_MS)
    assert word(world, ask_own("t", 1, 5))[0][0] == Status.GRANTED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([("cancelled", "1")], ""),
        ([("stopped", "no credential"), ("stopped", "another reason, later"), ("stopped", "")], "no credential"),
    ],
    ids=["cancelled", "stopped for a reason"],
)
def test_a_cancelled_or_stopped_tasks_own_lane_is_closed_at_once_when_its_claims_have_ended(
    live: LawWorld, changes: list[tuple[str, str]], reason: str
) -> None:
    live.seal("t", 10)
    assert live.statuses(1, ask_own("t", 0, 4)) == [(Status.GRANTED, 4)]
    for change in changes:
        live.change("t", *change)
    assert word(live, ask_own("t", 4, 6)) == [(Status.PARKED, 6)]
    assert live.ledger.closable() == []
    live.record("t", run(0, 4), claim="w.1")
    assert live.ledger.closable() == [Closable("t", Outcome.CANCELLED, reason)]
    assert fold(live, CloseTask(1, "t", Outcome.CANCELLED, 5, reason)).finished == ["t"]
    assert live.counts("t") == {"sent": 4, "invalid": 0, "failed": 0, "expired": 0, "cancelled": 6}
    assert live.ledger.closable() == []
    assert word(live, ask_own("t", 4, 6)) == [(Status.DROP, 6)]


def test_a_cancelled_task_that_is_stopped_besides_is_closed_without_a_reason(world: LawWorld) -> None:
    world.add("t", expires_ms=1)
    world.seal("t", 10)
    world.change("t", "stopped", "no credential")
    assert world.ledger.closable() == [Closable("t", Outcome.CANCELLED, "no credential")]
    world.change("t", "cancelled", "1")
    assert world.ledger.closable() == [Closable("t", Outcome.CANCELLED)]


@pytest.mark.parametrize(
    "control", [None, ("paused", "1"), ("cap", "1"), ("cancelled", "1"), ("stopped", "why"), ("tier", "high")]
)
def test_a_task_that_was_given_a_lane_of_its_own_leaves_the_shared_one(
    world: LawWorld, control: tuple[str, str] | None
) -> None:
    """Whatever its state; what is final, recorded or claimed stays where it is. It spends nothing."""
    world.add("t", "low", shared=True)
    world.lease(1, ask_shared(want("t", 0, 4)))
    world.record("t", run(0, 1), mixed(1, [RETRY]))
    granted = world.stats()
    world.change("t", "lane", own_lane("t"))
    if control:
        world.change("t", *control)
    answer = world.lease(2, ask_shared(want("t", 0, 10)))
    assert statuses(answer) == [(Status.DROP, 1), (Status.REPUBLISH, 1), (Status.HELD, 2), (Status.MOVE, 6)]
    assert answer.lanes[0][0][-1].lane == own_lane("t")
    assert world.stats() == granted
    word_there = word(world, ask_own("t", 4, 1))[0][0]
    assert word_there == (
        Status.PARKED if control and control[0] in ("paused", "cancelled", "stopped") else Status.GRANTED
    )


def test_the_tombstone_is_looked_at_before_a_move(world: LawWorld) -> None:
    world.add("t", "low", shared=True)
    world.seal("t", 10)
    world.change("t", "lane", own_lane("t"))
    world.change("t", "cancelled", "1")
    assert word(world, ask_shared(want("t", 0, 10))) == [(Status.MOVE, 10)]
    assert world.ledger.closable() == [Closable("t", Outcome.CANCELLED)]
    fold(world, CloseTask(1, "t", Outcome.CANCELLED, 5))
    assert word(world, ask_shared(want("t", 0, 10))) == [(Status.DROP, 10)]


def test_the_lane_of_its_own_may_be_known_before_the_task(world: LawWorld) -> None:
    world.change("t", "lane", own_lane("t"))
    assert word(world, ask_shared(want("t", 0, 1))) == [(Status.UNKNOWN, 1)]
    world.add("t", "low", shared=True)
    assert word(world, ask_shared(want("t", 0, 1))) == [(Status.MOVE, 1)]


def test_an_expired_tasks_own_lane_is_closed(world: LawWorld) -> None:
    world.add("t", expires_ms=world.clock.wall_ms() + SOON_MS)
    world.seal("t", 3)
    assert world.ledger.closable() == []
    world.advance(SOON_MS)
    assert word(world, ask_own("t", 0, 3)) == [(Status.PARKED, 3)]
    assert world.ledger.closable() == [Closable("t", Outcome.EXPIRED)]


@pytest.mark.parametrize(
    ("how", "status"), [("cancelled", Status.CANCELLED), ("stopped", Status.CANCELLED), ("expired", Status.EXPIRED)]
)
def test_without_a_lane_of_its_own_each_envelope_is_claimed_and_recorded(
    world: LawWorld, how: str, status: int
) -> None:
    """Claimed, so that it is recorded once; without a lease, so that it costs nothing."""
    world.add("t", "low", shared=True, expires_ms=world.clock.wall_ms() + SOON_MS)
    world.set_capacity(1_000)
    world.record("t", mixed(0, [RETRY]))
    if how != "expired":
        world.change("t", how, "1")
    else:
        world.advance(SOON_MS)
    assert word(world, ask_shared(want("t", 1, 4))) == [(status, 4)]
    assert word(world, ask_shared(want("t", 1, 4))) == [(Status.HELD, 4)]
    assert word(world, ask_retry(want("t", 0, 1, attempt=1), tier="low")) == [(status, 1)]
    assert world.ledger.closable() == []
    assert not any(name.startswith("granted") for name in world.stats())


def test_a_cancelled_task_in_a_shared_lane_does_not_wait_for_its_retry_lane(world: LawWorld) -> None:
    world.add("t", "low", shared=True)
    world.record("t", mixed(0, [RETRY]))
    world.seal("t", 5)
    world.change("t", "cancelled", "1")
    assert world.ledger.closable() == [Closable("t", Outcome.CANCELLED)]
    assert fold(world, CloseTask(1, "t", Outcome.CANCELLED, 5)).finished == ["t"]
    assert sum(world.counts("t").values()) == 5
    assert word(world, ask_shared(want("t", 1, 4))) == [(Status.DROP, 4)]
    assert word(world, ask_retry(want("t", 0, 1, attempt=1), tier="low")) == [(Status.DROP, 1)]


def test_envelopes_of_a_cancelled_task_leave_the_retry_lane(live: LawWorld) -> None:
    live.record("t", mixed(0, [RETRY]))
    live.change("t", "cancelled", "1")
    answer = live.lease(1, ask_retry(want("t", 0, 1, attempt=1)))
    piece = answer.lanes[0][0][0]
    assert (piece.status, piece.lane) == (Status.MOVE, own_lane("t"))


def test_envelopes_of_a_capped_task_leave_the_retry_lane(world: LawWorld) -> None:
    world.add("t", cap=4)
    world.record("t", mixed(0, [RETRY]), mixed(1, [RETRY]), mixed(2, [RETRY]))
    answer = world.lease(1, ask_retry(want("t", 0, 3, attempt=1)))
    assert statuses(answer) == [(Status.GRANTED, 1), (Status.MOVE, 2)]
    assert answer.lanes[0][0][1].lane == own_lane("t")


def test_a_waiting_task_does_not_block_those_behind_it_in_a_lane_of_many(world: LawWorld) -> None:
    world.add("waits")
    world.add("goes")
    world.change("waits", "paused", "1")
    for task in ("waits", "goes"):
        world.record(task, mixed(0, [RETRY]))
    asked = ask_retry(want("waits", 0, 1, attempt=1), want("goes", 0, 1, attempt=1))
    answer = world.lease(1, asked)
    assert [statuses(answer, 0, index) for index in (0, 1)] == [[(Status.MOVE, 1)], [(Status.GRANTED, 1)]]


def test_an_ended_task_is_dropped_everywhere(live: LawWorld) -> None:
    live.record("t", mixed(0, [RETRY]))
    live.end("t")
    assert word(live, ask_own("t", 0, 9)) == [(Status.DROP, 9)]
    assert word(live, ask_retry(want("t", 0, 1, attempt=1))) == [(Status.DROP, 1)]
    before = live.counts("t")
    live.record("t", run(5, 3))
    assert live.counts("t") == before


def test_an_unknown_task_is_said_to_be_so_only_by_a_complete_view(world: LawWorld) -> None:
    assert word(world, ask_own("ghost", 0, 3)) == [(Status.UNKNOWN, 3)]
    world.restart_epoch(0)
    assert word(world, ask_own("ghost", 0, 3)) == [(Status.HELD, 3)]


def test_a_task_of_which_only_outcomes_are_known_is_unknown(world: LawWorld) -> None:
    world.record("t", run(0, 3))
    assert word(world, ask_own("t", 0, 3)) == [(Status.UNKNOWN, 3)]
    world.add("t")
    assert word(world, ask_own("t", 0, 4)) == [(Status.DROP, 3), (Status.GRANTED, 1)]
    assert world.counts("t")["sent"] == 3


def test_writers_count_once_the_seal_names_them(live: LawWorld) -> None:
    assert word(live, ask(own_lane("t"), want("t", 0, 2, writer="s1"))) == [(Status.HELD, 2)]
    assert word(live, ask_own("t", 0, 2)) == [(Status.GRANTED, 2)]
    live.seal("t", 10, ["s1", "s2"])
    assert word(live, ask(own_lane("t"), want("t", 0, 2, writer="s1"))) == [(Status.GRANTED, 2)]
    assert word(live, ask(own_lane("t"), want("t", 0, 2, writer="s3"))) == [(Status.DROP, 2)]
    assert word(live, ask_own("t", 2, 2)) == [(Status.DROP, 2)]


def test_a_seal_may_name_thousands_of_writers(live: LawWorld) -> None:
    live.seal("t", 5_000, [f"writer-{number}" for number in range(5_000)])
    for writer in ("writer-0", "writer-4999", "writer-77"):
        assert word(live, ask(own_lane("t"), want("t", 0, 1, writer=writer))) == [(Status.GRANTED, 1)]
    for writer in ("writer-5000", "riter-77", "0"):
        assert word(live, ask(own_lane("t"), want("t", 0, 1, writer=writer))) == [(Status.DROP, 1)]
    live.end("t")
    assert word(live, ask(own_lane("t"), want("t", 1, 1, writer="writer-0"))) == [(Status.DROP, 1)]


def test_a_view_that_is_not_ready_holds_everything(live: LawWorld) -> None:
    live.restart_epoch(live.clock.wall_ms() + SOON_MS)
    answer = live.lease(1, ask_own("t", 0, 3))
    assert (answer.ready, statuses(answer)) == (False, [(Status.HELD, 3)])
    for partition in (0, 1):
        fold(live, EpochMark(1, "again"), partition=partition)
    assert not live.epochs.ready()
    live.apply(EpochMark(1, "again"))
    assert live.epochs.ready()
    assert not live.lease(2, ask_own("t", 0, 3)).ready
    live.advance(SOON_MS)
    assert live.statuses(3, ask_own("t", 0, 3)) == [(Status.GRANTED, 3)]


@pytest.mark.parametrize("last", ["control", 0, 1])
def test_a_view_is_ready_when_the_last_topic_is_read_to_its_own_mark(world: LawWorld, last: str | int) -> None:
    def read_to_the_mark(topic: str | int, epoch: str) -> None:
        if isinstance(topic, int):
            fold(world, EpochMark(1, epoch), partition=topic)
        else:
            world.apply(EpochMark(1, epoch))

    world.restart_epoch(0)
    topics: set[str | int] = {"control", 0, 1}
    for topic in topics - {last}:
        read_to_the_mark(topic, "again")
    read_to_the_mark(last, EPOCH)
    assert not world.epochs.ready()
    read_to_the_mark(last, "again")
    assert world.epochs.ready()
