"""Rounds: a later round of an envelope is granted with exactly the open targets, paid for those that are due, and a
claim that ends without a record costs these a try."""

from collections.abc import Sequence

import msgspec

from dispatcher.wire.groups import MAX_TRIES, TargetGroup
from dispatcher.wire.lease import LaneAsk, LeaseAnswer, Status, StatusRun
from dispatcher.wire.outcome import RETRY, UNKNOWN, UNSENT, ClaimsEnded, Mixed
from tests.contract.ledger_worlds import (
    LawWorld,
    ask_own,
    ask_retry,
    fold,
    given_back,
    mixed,
    outcomes,
    statuses,
    want,
)
from tests.contract.registry_records import change, setting

GRANTED, HELD, DROP, REPUBLISH = Status.GRANTED, Status.HELD, Status.DROP, Status.REPUBLISH
SOON_MS, LATER_MS = 5_000, 90_000


def group(positions: str, tries: int = 0, due_ms: int = SOON_MS, first_ms: int = 0, **fields: bool) -> TargetGroup:
    return TargetGroup(positions=positions, tries=tries, due_ms=due_ms, first_ms=first_ms, **fields)


def recorded(codes: Sequence[int], *groups: TargetGroup, attempt: int = 0) -> Mixed:
    """A record of envelope 0 with four targets, and its groups."""
    return mixed(0, codes, attempt=attempt, size=4, groups=list(groups))


def copy_of(*groups: TargetGroup, attempt: int = 1, turn_ms: int = SOON_MS) -> LaneAsk:
    """A retry lane with a later round of envelope 0, of which what is due by `turn_ms` will be sent."""
    sizes = [one.count for one in groups if one.due_ms <= turn_ms]
    is_open, tries = sum(one.count for one in groups), sum(one.tries * one.count for one in groups)
    fields = {"size": sum(sizes), "total": 4, "open": is_open, "tries": tries, "due_ms": turn_ms}
    return ask_retry(want("t", 0, 1, attempt=attempt, **fields))


def piece_of(answer: LeaseAnswer) -> StatusRun:
    (piece,) = answer.lanes[0][0]
    return piece


def end_claim(world: LawWorld, number: int) -> None:
    """Its worker has recorded nothing."""
    fold(world, ClaimsEnded(1, [f"w.{number}|t"]))


def noted(world: LawWorld) -> str:
    value: bytes = world.view.command("HGET", world.view.keys.task("t"), "lacking")
    return value.decode()


A, REST = group("1", 1), group("e", 0, LATER_MS)
OPEN = recorded([RETRY, UNSENT, UNSENT, UNSENT], A, REST)


def test_what_is_due_is_granted_and_paid_for(live: LawWorld) -> None:
    live.record("t", OPEN)
    assert piece_of(live.lease(1, copy_of(A, REST))) == StatusRun(GRANTED, 1)
    assert live.stats()["granted:high"] == 1
    live.record("t", recorded([0, UNSENT, UNSENT, UNSENT], REST, attempt=1))
    assert live.stats()["used:high"] == 1
    assert piece_of(live.lease(2, copy_of(REST, attempt=2, turn_ms=LATER_MS))).status == GRANTED
    assert live.stats()["granted:high"] == 1 + 3


def test_a_copy_with_more_targets_than_are_open_is_cut(live: LawWorld) -> None:
    live.record("t", OPEN)
    live.record("t", recorded([0, 0, UNKNOWN, 0], group("4", 7, LATER_MS)))
    piece = piece_of(live.lease(1, copy_of(A, REST)))
    assert (piece.status, piece.attempt, piece.open_positions) == (REPUBLISH, 0, [2])
    assert piece.groups == [group("4", 0, LATER_MS)], "the first record of a round says when its open targets are due"
    assert piece_of(live.lease(2, copy_of(*piece.groups, turn_ms=LATER_MS))).status == GRANTED


def test_a_copy_with_other_due_times_gets_those_of_the_view(live: LawWorld) -> None:
    live.record("t", OPEN)
    piece = piece_of(live.lease(1, copy_of(group("f", 1))))
    assert (piece.status, piece.attempt, piece.groups) == (REPUBLISH, 0, [A, REST])


def test_a_copy_that_lacks_an_open_target_is_held_and_noted(live: LawWorld) -> None:
    live.record("t", OPEN)
    first_ms = live.clock.wall_ms()
    for number in (1, 2):
        assert statuses(live.lease(number, copy_of(REST, turn_ms=LATER_MS))) == [(HELD, 1)]
        live.advance(5_000)
    assert noted(live) == f"0:0:1 {first_ms} {first_ms + 5_000}"
    live.advance(60_000)
    live.lease(3, copy_of(REST, turn_ms=LATER_MS))
    assert noted(live) == f"0:0:1 {first_ms + 70_000} {first_ms + 70_000}"


def test_an_older_round_gets_the_open_targets_with_their_tries(live: LawWorld) -> None:
    live.record("t", OPEN)
    live.record("t", recorded([0, UNKNOWN, UNSENT, 0], group("2", 1), group("4"), attempt=1))
    piece = piece_of(live.lease(1, copy_of(A, REST)))
    assert (piece.status, piece.attempt, piece.groups) == (REPUBLISH, 1, [group("2", 1), group("4")])


def test_a_claim_that_ends_without_a_record_costs_what_was_due_a_try(live: LawWorld) -> None:
    live.record("t", OPEN)
    live.lease(1, copy_of(A, REST))
    end_claim(live, 1)
    now_ms = live.clock.wall_ms()
    lost = msgspec.structs.replace(A, tries=2, first_ms=now_ms, is_lost=True)
    assert piece_of(live.lease(2, copy_of(A, REST))) == StatusRun(GRANTED, 1, groups=[lost, REST])
    live.record("t", recorded([0, UNSENT, UNSENT, UNSENT], REST, attempt=1), claim="w.2")
    assert piece_of(live.lease(3, copy_of(REST, attempt=2, turn_ms=LATER_MS))) == StatusRun(GRANTED, 1)
    assert live.stats()["repeats_possible"] == 1, "in targets"


def test_first_rounds_of_a_lost_claim_are_granted_together_with_their_tries(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 20, size=3))
    end_claim(live, 1)
    now_ms = live.clock.wall_ms()
    lost = TargetGroup(positions="7", tries=1, due_ms=0, first_ms=now_ms, is_lost=True)
    answer = live.lease(2, ask_own("t", 0, 30, size=3))
    assert answer.lanes[0][0] == [StatusRun(GRANTED, 20, groups=[lost]), StatusRun(GRANTED, 10)]
    assert live.stats()["repeats_possible"] == 60
    assert live.statuses(1, ask_own("t", 0, 30, size=3), worker="other") == [(HELD, 30)]
    for number in range(2, MAX_TRIES + 3):
        end_claim(live, number)
        live.lease(number + 1, ask_own("t", 0, 1, size=3))
    again = piece_of(live.lease(1, ask_own("t", 1, 1, size=3), worker="third"))
    assert [one.tries for one in again.groups] == [2]
    end_claim(live, MAX_TRIES + 3)
    most = piece_of(live.lease(MAX_TRIES + 4, ask_own("t", 0, 1, size=3)))
    assert [one.tries for one in most.groups] == [MAX_TRIES]


def test_a_first_round_of_a_lost_claim_ends_as_any_other(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 2, size=2))
    end_claim(live, 1)
    live.lease(2, ask_own("t", 0, 2, size=2))
    live.record("t", mixed(0, [0, 1]), claim="w.2")
    live.record("t", mixed(1, [0, RETRY]), claim="w.2")
    assert live.claims("t") == 0
    assert live.statuses(3, ask_own("t", 0, 2, size=2)) == [(DROP, 1), (REPUBLISH, 1)]
    assert (live.counts("t")["sent"], live.counts("t")["invalid"]) == (2, 1)


def test_what_is_given_back_costs_no_try(live: LawWorld) -> None:
    live.record("t", OPEN)
    live.lease(1, copy_of(A, REST), ask_own("t", 1, 4))
    back = [given_back("t", 1, 4), given_back("t", 0, 1, attempt=1)]
    answer = live.lease(2, copy_of(A, REST), ask_own("t", 1, 4), given_back=back)
    assert answer.lanes == [[[StatusRun(GRANTED, 1)]], [[StatusRun(GRANTED, 4)]]]


def test_a_record_without_groups_has_tried_all_in_each_round(live: LawWorld) -> None:
    """Another program may write such."""
    live.record("t", mixed(0, [0, RETRY], delay_s=5))
    at_ms = outcomes("t").at_ms
    piece = piece_of(live.lease(1, ask_own("t", 0, 1, size=2)))
    assert piece.groups == [TargetGroup(positions="2", tries=1, due_ms=at_ms + 5_000, first_ms=at_ms)]
    assert live.statuses(2, ask_retry(want("t", 0, 1, attempt=1))) == [(GRANTED, 1)]


def test_a_lease_names_the_time_in_which_targets_were_paused_since_their_first_call(live: LawWorld) -> None:
    """The task, its channel and its flow, each moment once; a pause that ran out until its end."""
    start_ms = live.clock.wall_ms()
    early, late = group("1", 1, first_ms=start_ms), group("2", 1, first_ms=start_ms + 15_000)
    live.record("t", recorded([RETRY, RETRY, 0, 0], early, late))

    def at(second: int) -> int:
        return start_ms + 1_000 * second

    live.apply(setting("channel_paused:null", "1", at(10)))
    live.apply(setting("channel_paused:null", "0", at(20)))
    live.apply(change("t", "paused", "1", at(18)))
    live.apply(change("t", "paused", "0", at(25)))
    live.apply(setting("flow_paused:null:shop", f"{at(40)}|down|{at(30)}||away", at(30)))
    live.advance(60_000)
    plain = copy_of(early, late)
    (want,) = plain.wants
    aged = msgspec.structs.replace(plain, wants=[msgspec.structs.replace(want, first_ms=early.first_ms)])
    assert piece_of(live.lease(1, plain)) == StatusRun(GRANTED, 1)
    back = given_back("t", 0, 1, lane=plain.lane, attempt=1, size=2)
    piece = piece_of(live.lease(2, aged, given_back=[back]))
    assert [(one.positions, one.paused_ms) for one in piece.groups] == [("1", 25_000), ("2", 20_000)]
