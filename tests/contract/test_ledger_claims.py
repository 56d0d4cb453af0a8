"""Claims: one grant per identity while it is claimed; what ends without a record is granted again, after the fold."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.model.errors import Refused
from dispatcher.wire.lease import GivenBack, Status
from dispatcher.wire.outcome import RETRY, ClaimsEnded
from quotas.ledger import PAGE
from tests.contract.ledger_crowd import assert_tallied
from tests.contract.ledger_worlds import (
    TOPICS,
    LawWorld,
    Worlds,
    ask,
    ask_own,
    ask_retry,
    capacity,
    change,
    fold,
    mixed,
    outcomes,
    own_lane,
    request,
    run,
    sealed,
    statuses,
    task_record,
    want,
)

GRANTED, HELD, DROP, REPUBLISH = Status.GRANTED, Status.HELD, Status.DROP, Status.REPUBLISH


def end_claims(world: LawWorld) -> None:
    """End the claims that are due, as the housekeeper does."""
    for partition, claims in world.ledger.due_claims().items():
        fold(world, ClaimsEnded(1, claims), partition=partition)


def test_a_claimed_envelope_is_held_from_others(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 10, 20)))
    answer = world.ledger.lease(request(1, ask_own("t", 0, 40), worker="other"))
    assert statuses(answer) == [(GRANTED, 10), (HELD, 20), (GRANTED, 10)]
    assert world.claims("t") == 2


def test_copies_in_one_call_are_granted_once(world: LawWorld) -> None:
    world.apply(task_record("t"))
    lane = ask(own_lane("t"), want("t", 0, 5), want("t", 3, 1), want("t", 2, 6))
    answer = world.ledger.lease(request(1, lane))
    assert statuses(answer, 0, 0) == [(GRANTED, 5)]
    assert statuses(answer, 0, 1) == [(HELD, 1)]
    assert statuses(answer, 0, 2) == [(HELD, 3), (GRANTED, 3)]


def test_a_copy_in_one_call_is_free_again_where_the_first_found_no_credit(world: LawWorld) -> None:
    world.apply(task_record("t", cap=4))
    lane = ask(own_lane("t"), want("t", 0, 2), want("t", 1, 1))
    answer = world.ledger.lease(request(1, lane))
    assert statuses(answer, 0, 0) == [(GRANTED, 1), (Status.NO_CREDIT, 1)]
    assert statuses(answer, 0, 1) == [(HELD, 1)]
    world.advance(1_000)
    assert statuses(world.ledger.lease(request(2, ask_own("t", 1, 1)))) == [(GRANTED, 1)]


def test_the_same_number_gets_the_same_answer(world: LawWorld) -> None:
    world.apply(task_record("t"))
    first = world.ledger.lease(request(7, ask_own("t", 0, 20)))
    world.advance(50)
    assert world.ledger.lease(request(7, ask_own("t", 0, 20))) == first
    assert world.claims("t") == 1


def test_a_call_made_again_after_its_answer_was_forgotten_still_holds_what_it_claimed(world: LawWorld) -> None:
    """An answer is kept for a minute; a worker that Redis was out of reach for longer asks under the same number."""
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 5)))
    world.forget_answer("w")
    assert statuses(world.ledger.lease(request(1, ask_own("t", 0, 8)))) == [(HELD, 5), (GRANTED, 3)]
    assert world.claims("t") == 1
    assert_tallied(world)
    world.advance(3_000)
    end_claims(world)
    assert world.claims("t") == 0
    assert statuses(world.ledger.lease(request(2, ask_own("t", 0, 8)))) == [(GRANTED, 8)]
    assert_tallied(world)


def test_a_claim_is_kept_until_it_is_closed_however_long_the_service_stands(world: LawWorld) -> None:
    """Only the claim names its envelopes: if it expired, they would be held for ever."""
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 20)))
    fold(world, outcomes("t", run(0, 5)))
    assert world.view.client.pttl(world.view.keys.claim("w.1", "t")) == -1


def test_a_claim_that_is_closed_when_its_tasks_tombstone_has_expired_leaves_nothing(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 1)))
    client, keys = world.view.client, world.view.keys
    client.delete(keys.task("t"), keys.touched("t", "0"))
    world.advance(3_000)
    end_claims(world)
    assert not client.exists(keys.task("t"), keys.touched("t", "0"), keys.claim("w.1", "t"), keys.claims)


def test_a_lower_number_is_refused(world: LawWorld) -> None:
    world.ledger.lease(request(7))
    with pytest.raises(Refused, match="request 6 after request 7"):
        world.ledger.lease(request(6))


def test_an_ended_claim_is_granted_again_only_once_the_fold_has_read_of_its_end(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 20)))
    fold(world, outcomes("t", run(0, 5)))
    assert world.ledger.due_claims() == {}
    world.advance(3_000)
    assert statuses(world.ledger.lease(request(2, ask_own("t", 0, 20)))) == [(DROP, 5), (HELD, 15)]
    assert world.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}
    fold(world, ClaimsEnded(1, ["w.1|t"]))
    assert statuses(world.ledger.lease(request(3, ask_own("t", 0, 20)))) == [(DROP, 5), (GRANTED, 15)]
    assert world.stats()["repeats_possible"] == 15


def test_claims_of_a_worker_that_is_alive_are_spared_for_a_minute(world: LawWorld) -> None:
    """Its records may be late, with Pulsar gone: another would send what it has sent."""
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 1), worker="host-7.a"))
    partition = TOPICS.partition_of("t")
    for waited_ms in range(3_000, 63_000, 3_000):
        world.advance(3_000)
        world.beat("host-7.a")
        assert world.ledger.due_claims() == {}, waited_ms
    world.advance(3_000)
    world.beat("host-7.a")
    assert world.ledger.due_claims() == {partition: ["host-7.a.1|t"]}


def test_claims_that_a_worker_has_unrecorded_outcomes_of_are_spared_until_its_heart_stops(world: LawWorld) -> None:
    """Pulsar cannot be reached from it; another would send what it has sent."""
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 1)))
    unrecorded = {"unrecorded": {"since_ms": world.clock.wall_ms() + 500, "targets": 1, "tasks": ["t"]}}
    for _ in range(50):
        world.advance(3_000)
        world.beat("w", unrecorded)
        assert world.ledger.due_claims() == {}
    world.advance(6_000)
    assert world.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}


def test_claims_end_as_ever_once_a_worker_has_recorded_what_it_knew_then(world: LawWorld) -> None:
    """A worker that never stops sending always has some outcome that is not recorded yet."""
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 1)))
    for waited_ms in range(3_000, 69_000, 3_000):
        world.advance(3_000)
        world.beat("w", {"unrecorded": {"since_ms": world.clock.wall_ms() - 10, "targets": 1}})
        assert (world.ledger.due_claims() == {}) is (waited_ms < 66_000), waited_ms


@pytest.mark.parametrize(
    "extra", [None, {}, 7, "x", {"unrecorded": 7}, {"unrecorded": {}}, {"unrecorded": {"since_ms": [1]}}]
)
def test_a_heartbeat_that_makes_no_sense_spares_claims_as_one_that_says_nothing(world: LawWorld, extra: object) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 1)))
    world.advance(62_000)
    world.beat("w", extra)
    assert world.ledger.due_claims() == {}
    world.advance(4_000)
    world.beat("w", extra)
    assert world.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}


def test_claims_of_a_worker_that_falls_silent_end_soon(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.beat("w")
    world.ledger.lease(request(1, ask_own("t", 0, 1)))
    world.advance(3_000)
    assert world.ledger.due_claims() == {}
    world.advance(3_000)
    assert world.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}


@pytest.mark.parametrize("step_ms", [2_000, 3_600_000])
def test_a_step_of_the_clock_ends_no_claim_that_was_live_before_it(world: LawWorld, step_ms: int) -> None:
    """They end when they would have without the step, whatever a look right after it made of them."""
    due = {TOPICS.partition_of("t"): ["w.2|t"]}
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 1)))
    world.advance(3_000)
    over = world.ledger.due_claims()
    assert list(over.values()) == [["w.1|t"]]
    world.ledger.lease(request(2, ask_own("t", 1, 1)))
    world.advance(1_000 + step_ms)
    world.ledger.due_claims()
    world.ledger.lengthen_claims(step_ms)
    world.advance(1_999)
    assert "w.2|t" not in [name for names in world.ledger.due_claims().values() for name in names]
    world.advance(1)
    assert world.ledger.due_claims() == due


def test_no_claim_is_made_longer_than_a_new_one(world: LawWorld) -> None:
    """A longer limit is set that no clock step calls for."""
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 1)))
    world.advance(1_000)
    world.ledger.lengthen_claims(3_600_000)
    world.ledger.lengthen_claims(3_600_000)
    world.advance(2_999)
    assert world.ledger.due_claims() == {}
    world.advance(1)
    assert world.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}


def test_what_is_given_back_after_a_step_of_the_clock_is_refunded(world: LawWorld) -> None:
    world.apply(capacity(1_000))
    world.apply(task_record("t"))
    for number in (1, 2):
        world.ledger.lease(request(number, ask_own("t", 0, 1)))
        world.advance(100)
    world.advance(60_000)
    world.ledger.lengthen_claims(60_000)
    world.ledger.lease(request(3, given_back=[GivenBack("w.2", own_lane("t"), "t", "0", 0, 0, 1, 1)]))
    assert world.stats()["returned:high"] == world.stats()["granted:high"]


def test_a_due_claim_is_named_again_after_a_while(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 1)))
    world.advance(3_000)
    assert world.ledger.due_claims()
    assert not world.ledger.due_claims()
    world.advance(3_000)
    assert world.ledger.due_claims()


def test_a_record_of_an_ended_claim_counts_and_leaves_the_next_claim_alone(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 10)))
    world.advance(3_000)
    end_claims(world)
    world.ledger.lease(request(2, ask_own("t", 0, 10)))
    fold(world, outcomes("t", run(0, 4), claim="w.1"))
    assert world.counts("t")["sent"] == 4
    assert world.claims("t") == 1
    fold(world, outcomes("t", run(0, 10), claim="w.2"))
    assert world.counts("t")["sent"] == 10
    assert world.claims("t") == 0
    assert world.stats()["repeats"] == 4


def test_a_doubled_record_does_not_end_a_claim_on_other_envelopes(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 10)))
    record = outcomes("t", run(0, 5))
    fold(world, record, record)
    assert world.claims("t") == 1
    world.advance(3_000)
    end_claims(world)
    assert statuses(world.ledger.lease(request(2, ask_own("t", 0, 10)))) == [(DROP, 5), (GRANTED, 5)]


def test_what_is_given_back_is_free_at_once_and_stays_with_who_claims_it_next(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 10)))
    back = GivenBack("w.1", own_lane("t"), "t", "0", 0, 3, 4, 1)
    answer = world.ledger.lease(request(2, ask_own("t", 0, 10), given_back=[back], claim_ms=60_000))
    assert statuses(answer) == [(HELD, 3), (GRANTED, 4), (HELD, 3)]
    world.advance(3_000)
    end_claims(world)
    again = world.ledger.lease(request(3, ask_own("t", 0, 10)))
    assert statuses(again) == [(GRANTED, 3), (HELD, 4), (GRANTED, 3)]


def test_giving_back_what_is_recorded_or_of_a_claim_that_ended_changes_nothing(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 4)))
    fold(world, outcomes("t", run(0, 2)))
    recorded = GivenBack("w.1", own_lane("t"), "t", "0", 0, 0, 2, 1)
    unknown = GivenBack("w.99", own_lane("t"), "t", "0", 0, 2, 2, 1)
    answer = world.ledger.lease(request(2, ask_own("t", 0, 4), given_back=[recorded, unknown]))
    assert statuses(answer) == [(DROP, 2), (HELD, 2)]


def test_giving_all_back_ends_the_claim(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 4)))
    world.ledger.lease(request(2, given_back=[GivenBack("w.1", own_lane("t"), "t", "0", 0, 0, 4, 1)]))
    assert world.claims("t") == 0
    world.advance(10_000)
    assert world.ledger.due_claims() == {}


def test_the_next_attempt_waits_for_the_fold_and_is_claimed_on_its_own(world: LawWorld) -> None:
    world.apply(task_record("t"))
    retry = ask_retry(want("t", 0, 1, attempt=1))
    world.ledger.lease(request(1, ask_own("t", 0, 1, size=3)))
    assert statuses(world.ledger.lease(request(2, retry))) == [(HELD, 1)]
    fold(world, outcomes("t", mixed(0, [0, RETRY, RETRY])))
    assert statuses(world.ledger.lease(request(3, retry))) == [(GRANTED, 1)]
    assert statuses(world.ledger.lease(request(1, retry, worker="other"))) == [(HELD, 1)]
    world.advance(3_000)
    end_claims(world)
    assert statuses(world.ledger.lease(request(2, retry, worker="other"))) == [(GRANTED, 1)]


def test_a_later_attempt_is_held_until_the_one_before_is_recorded(world: LawWorld) -> None:
    world.apply(task_record("t"))
    fold(world, outcomes("t", mixed(0, [RETRY])))
    assert statuses(world.ledger.lease(request(1, ask_retry(want("t", 0, 1, attempt=2))))) == [(HELD, 1)]


def test_recorded_with_open_targets_is_published_again(world: LawWorld) -> None:
    """Attempt 0 comes back after its record (the worker died before it published the next one, or before the ack)."""
    world.apply(task_record("t"))
    world.ledger.lease(request(1, ask_own("t", 0, 2, size=4)))
    fold(world, outcomes("t", run(0, 1, size=4), mixed(1, [0, RETRY, 1, RETRY])))
    answer = world.ledger.lease(request(2, ask_own("t", 0, 3, size=4)))
    assert statuses(answer) == [(DROP, 1), (REPUBLISH, 1), (GRANTED, 1)]
    piece = answer.lanes[0][0][1]
    assert (piece.attempt, piece.open_positions) == (0, [1, 3])
    fold(world, outcomes("t", mixed(1, [RETRY, 0], attempt=1, size=4, positions=[1, 3])))
    piece = world.ledger.lease(request(3, ask_retry(want("t", 1, 1, attempt=1)))).lanes[0][0][0]
    assert (piece.status, piece.attempt, piece.open_positions) == (REPUBLISH, 1, [1])


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    calls=st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.tuples(st.integers(0, 90), st.integers(1, 40)), max_size=4)),
        min_size=1,
        max_size=12,
    ),
    rate=st.sampled_from([0, 300]),
)
def test_no_identity_is_granted_twice_while_it_is_claimed(worlds: Worlds, calls, rate: int) -> None:  # type: ignore[no-untyped-def]
    world = worlds()
    world.apply(task_record("t"))
    world.apply(capacity(rate))
    granted: list[int] = []
    for number, (worker, wants) in enumerate(calls, 1):
        world.advance(100)
        lane = ask(own_lane("t"), *(want("t", first, count) for first, count in wants))
        for wanted, got in zip(
            lane.wants, world.ledger.lease(request(number, lane, worker=worker)).lanes[0], strict=True
        ):
            place = wanted.first
            for piece in got:
                granted += range(place, place + piece.count) if piece.status == GRANTED else ()
                place += piece.count
            assert place == wanted.first + wanted.count
    assert len(granted) == len(set(granted))


def test_a_cancelled_task_is_found_behind_any_number_of_live_ones(world: LawWorld) -> None:
    """They are looked through page by page."""
    for number in range(PAGE + 1):
        world.apply(task_record(f"t{number:03}"))
    last = f"t{PAGE:03}"
    world.apply(sealed(last, 1))
    world.apply(change(last, "cancelled", "1"))
    assert [found.task for found in world.ledger.closable()] == [last]
