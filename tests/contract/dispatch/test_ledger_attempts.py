"""Later attempts, their copies and those of the first: each is sent once, and what is over leaves its lane."""

from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import RETRY, ClaimsEnded
from tests.contract.ledger_worlds import (
    LawWorld,
    ask_own,
    ask_retry,
    fold,
    mixed,
    outcomes,
    pieces,
    run,
    statuses,
    want,
)

SECOND = ask_retry(want("t", 0, 1, attempt=1))
"""The second attempt of an envelope, in its retry lane."""


def test_a_copy_of_a_later_attempt_that_is_over_leaves_its_lane(live: LawWorld) -> None:
    fold(live, outcomes("t", mixed(0, [RETRY])), outcomes("t", mixed(0, [0], attempt=1)))
    assert live.statuses(1, SECOND) == [(Status.DROP, 1)]


def test_open_envelopes_side_by_side_get_back_the_attempts_of_their_own_targets(live: LawWorld) -> None:
    live.record("t", mixed(0, [0, RETRY]), mixed(1, [RETRY, 0]), mixed(2, [RETRY, 0]))
    answer = pieces(live.lease(1, ask_own("t", 0, 3, size=2)))
    assert [(piece.status, piece.count, piece.open_positions) for piece in answer] == [
        (Status.REPUBLISH, 1, [1]),
        (Status.REPUBLISH, 1, [0]),
        (Status.REPUBLISH, 1, [0]),
    ]


def test_what_was_claimed_of_a_writer_that_the_seal_leaves_out_leaves_its_lane(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 2))
    live.seal("t", 0, ["another"])
    assert live.statuses(1, ask_own("t", 0, 4), worker="x") == [(Status.DROP, 4)]


def test_a_doubled_record_of_the_first_attempt_leaves_the_claim_on_the_second(live: LawWorld) -> None:
    """A worker may be granted both in one call: the copy of the record comes late, and under the same claim."""
    live.record("t", mixed(0, [RETRY]))
    assert live.statuses(1, SECOND) == [(Status.GRANTED, 1)]
    live.record("t", mixed(0, [RETRY]), claim="w.1")
    assert live.claims("t") == 1
    live.advance(3_000)
    fold(live, ClaimsEnded(1, ["w.1|t"]))
    assert live.statuses(2, SECOND) == [(Status.GRANTED, 1)]


def test_the_record_of_one_writer_leaves_the_claim_on_another(live: LawWorld) -> None:
    live.seal("t", 2, ["a", "b"])
    both = [ask_own("t", 0, 1, writer=writer) for writer in "ab"]
    live.lease(1, *both)
    live.record("t", run(0, 1, writer="a"))
    assert live.claims("t") == 1
    live.advance(3_000)
    fold(live, ClaimsEnded(1, ["w.1|t"]))
    answer = live.lease(2, *both)
    assert [statuses(answer, lane) for lane in (0, 1)] == [[(Status.DROP, 1)], [(Status.GRANTED, 1)]]


def test_the_end_of_a_claim_leaves_what_another_has_recorded(live: LawWorld) -> None:
    """A worker that stalled until after its claim's end records what it sent, under that claim."""
    live.lease(1, ask_own("t", 0, 4))
    live.record("t", mixed(1, [RETRY]), run(2, 1), claim="another.1")
    live.advance(3_000)
    fold(live, ClaimsEnded(1, ["w.1|t"]))
    assert live.statuses(2, ask_own("t", 0, 4)) == [
        (Status.GRANTED, 1),
        (Status.REPUBLISH, 1),
        (Status.DROP, 1),
        (Status.GRANTED, 1),
    ]


def test_a_doubled_record_of_the_first_attempt_does_not_bring_the_second_again(live: LawWorld) -> None:
    first = outcomes("t", mixed(0, [RETRY]))
    fold(live, first, outcomes("t", mixed(0, [RETRY], attempt=1)), first)
    [piece] = pieces(live.lease(1, SECOND))
    assert (piece.status, piece.attempt) == (Status.REPUBLISH, 1)


def test_the_third_attempt_is_sent_once_the_second_is_recorded(live: LawWorld) -> None:
    live.record("t", mixed(0, [RETRY]))
    live.lease(1, SECOND)
    live.record("t", mixed(0, [RETRY], attempt=1))
    third = ask_retry(want("t", 0, 1, attempt=2))
    assert live.statuses(2, third) == [(Status.GRANTED, 1)]


def test_a_claim_ends_with_the_records_of_its_envelopes_whatever_became_of_their_targets(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 3, size=2))
    live.record("t", run(0, 1, size=2), mixed(1, [0, 1]))
    assert live.claims("t") == 1
    live.record("t", mixed(2, [RETRY, RETRY]))
    assert live.claims("t") == 0


def test_nothing_is_kept_of_an_envelope_whose_last_attempt_is_over(live: LawWorld) -> None:
    live.record("t", mixed(0, [0, RETRY]))
    live.record("t", mixed(0, [0], attempt=1, size=2, positions=[1]))
    assert live.counts("t")["sent"] == 2
    assert not live.view.client.exists(live.view.keys.open("t"))


def test_a_later_attempt_that_found_no_credit_is_sent_when_there_is_some(world: LawWorld) -> None:
    world.set_capacity(100)
    world.add("t")
    world.record("t", mixed(0, [RETRY]))
    assert world.statuses(1, SECOND) == [(Status.NO_CREDIT, 1)]
    world.advance(250)
    assert world.statuses(1, SECOND, worker="x") == [(Status.GRANTED, 1)]


def test_one_open_envelope_among_many_that_are_claimed_is_found(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 1_500, size=2))
    live.record("t", mixed(1_200, [0, RETRY]))
    answer = live.lease(1, ask_own("t", 0, 1_500, size=2), worker="x")
    assert statuses(answer) == [(Status.HELD, 1_200), (Status.REPUBLISH, 1), (Status.HELD, 299)]
