"""Claims: one grant per identity while it is claimed; what ends without a record is granted again, after the fold."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.model.errors import Refused
from dispatcher.wire.lease import ChannelTerms, Status
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
    each_piece,
    fold,
    given_back,
    mixed,
    outcomes,
    own_lane,
    run,
    statuses,
    want,
)

GRANTED, HELD, DROP, REPUBLISH = Status.GRANTED, Status.HELD, Status.DROP, Status.REPUBLISH


def test_a_claimed_envelope_is_held_from_others(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 10, 20))
    answer = live.lease(1, ask_own("t", 0, 40), worker="other")
    assert statuses(answer) == [(GRANTED, 10), (HELD, 20), (GRANTED, 10)]
    assert live.claims("t") == 2


def test_copies_in_one_call_are_granted_once(live: LawWorld) -> None:
    lane = ask(own_lane("t"), want("t", 0, 5), want("t", 3, 1), want("t", 2, 6))
    answer = live.lease(1, lane)
    assert statuses(answer, 0, 0) == [(GRANTED, 5)]
    assert statuses(answer, 0, 1) == [(HELD, 1)]
    assert statuses(answer, 0, 2) == [(HELD, 3), (GRANTED, 3)]


def test_a_copy_in_one_call_is_free_again_where_the_first_found_no_credit(world: LawWorld) -> None:
    world.add("t", cap=4)
    lane = ask(own_lane("t"), want("t", 0, 2), want("t", 1, 1))
    answer = world.lease(1, lane)
    assert statuses(answer, 0, 0) == [(GRANTED, 1), (Status.NO_CREDIT, 1)]
    assert statuses(answer, 0, 1) == [(HELD, 1)]
    world.advance(1_000)
    assert world.statuses(2, ask_own("t", 1, 1)) == [(GRANTED, 1)]


def test_the_same_number_gets_the_same_answer(live: LawWorld) -> None:
    first = live.lease(7, ask_own("t", 0, 20))
    live.advance(50)
    assert live.lease(7, ask_own("t", 0, 20)) == first
    assert live.claims("t") == 1


def test_a_call_made_again_after_its_answer_was_forgotten_still_holds_what_it_claimed(live: LawWorld) -> None:
    """An answer is kept for a minute; a worker that Redis was out of reach for longer asks under the same number."""
    live.lease(1, ask_own("t", 0, 5))
    assert live.view.client.delete(live.view.keys.call("w"))
    assert live.statuses(1, ask_own("t", 0, 8)) == [(HELD, 5), (GRANTED, 3)]
    assert live.claims("t") == 1
    assert_tallied(live)
    live.advance(3_000)
    live.end_claims()
    assert live.claims("t") == 0
    assert live.statuses(2, ask_own("t", 0, 8)) == [(GRANTED, 8)]
    assert_tallied(live)


def test_a_claim_is_kept_until_it_is_closed_however_long_the_service_stands(live: LawWorld) -> None:
    """Only the claim names its envelopes: if it expired, they would be held for ever."""
    live.lease(1, ask_own("t", 0, 20))
    live.record("t", run(0, 5))
    assert live.view.client.pttl(live.view.keys.claim("w.1", "t")) == -1


def test_a_claim_that_is_closed_when_its_tasks_tombstone_has_expired_leaves_nothing(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 1))
    client, keys = live.view.client, live.view.keys
    client.delete(keys.task("t"), keys.touched("t", "0"))
    live.advance(3_000)
    live.end_claims()
    assert not client.exists(keys.task("t"), keys.touched("t", "0"), keys.claim("w.1", "t"), keys.claims)


def test_a_lower_number_is_refused(world: LawWorld) -> None:
    world.lease(7)
    with pytest.raises(Refused, match="request 6 after request 7"):
        world.lease(6)


def test_an_ended_claim_is_granted_again_only_once_the_fold_has_read_of_its_end(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 20))
    live.record("t", run(0, 5))
    assert live.ledger.due_claims() == {}
    live.advance(3_000)
    assert live.statuses(2, ask_own("t", 0, 20)) == [(DROP, 5), (HELD, 15)]
    assert live.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}
    fold(live, ClaimsEnded(1, ["w.1|t"]))
    assert live.statuses(3, ask_own("t", 0, 20)) == [(DROP, 5), (GRANTED, 15)]
    assert live.stats()["repeats_possible"] == 15


def test_claims_of_a_worker_that_is_alive_are_spared_for_a_minute(live: LawWorld) -> None:
    """Its records may be late, with Pulsar gone: another would send what it has sent."""
    live.lease(1, ask_own("t", 0, 1), worker="host-7.a")
    partition = TOPICS.partition_of("t")
    for waited_ms in range(3_000, 63_000, 3_000):
        live.advance(3_000)
        live.beat("host-7.a")
        assert live.ledger.due_claims() == {}, waited_ms
    live.advance(3_000)
    live.beat("host-7.a")
    assert live.ledger.due_claims() == {partition: ["host-7.a.1|t"]}


def test_claims_that_a_worker_has_unrecorded_outcomes_of_are_spared_until_its_heart_stops(live: LawWorld) -> None:
    """Pulsar cannot be reached from it; another would send what it has sent."""
    live.lease(1, ask_own("t", 0, 1))
    unrecorded = {"unrecorded": {"since_ms": live.clock.wall_ms() + 500, "targets": 1, "tasks": ["t"]}}
    for _ in range(50):
        live.advance(3_000)
        live.beat("w", unrecorded)
        assert live.ledger.due_claims() == {}
    live.advance(6_000)
    assert live.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}


def test_claims_end_as_ever_once_a_worker_has_recorded_what_it_knew_then(live: LawWorld) -> None:
    """A worker that never stops sending always has some outcome that is not recorded yet."""
    live.lease(1, ask_own("t", 0, 1))
    for waited_ms in range(3_000, 69_000, 3_000):
        live.advance(3_000)
        live.beat("w", {"unrecorded": {"since_ms": live.clock.wall_ms() - 10, "targets": 1}})
        assert (live.ledger.due_claims() == {}) is (waited_ms < 66_000), waited_ms


@pytest.mark.parametrize(
    "extra", [None, {}, 7, "x", {"unrecorded": 7}, {"unrecorded": {}}, {"unrecorded": {"since_ms": [1]}}]
)
def test_a_heartbeat_that_makes_no_sense_spares_claims_as_one_that_says_nothing(live: LawWorld, extra: object) -> None:
    live.lease(1, ask_own("t", 0, 1))
    live.advance(62_000)
    live.beat("w", extra)
    assert live.ledger.due_claims() == {}
    live.advance(4_000)
    live.beat("w", extra)
    assert live.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}


def test_claims_of_a_worker_that_falls_silent_end_soon(live: LawWorld) -> None:
    live.beat("w")
    live.lease(1, ask_own("t", 0, 1))
    live.advance(3_000)
    assert live.ledger.due_claims() == {}
    live.advance(3_000)
    assert live.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}


@pytest.mark.parametrize("step_ms", [2_000, 3_600_000])
def test_a_step_of_the_clock_ends_no_claim_that_was_live_before_it(world: LawWorld, step_ms: int) -> None:
    """They end when they would have without the step, whatever a look right after it made of them."""
    due = {TOPICS.partition_of("t"): ["w.2|t"]}
    world.add("t")
    world.lease(1, ask_own("t", 0, 1))
    world.advance(3_000)
    over = world.ledger.due_claims()
    assert list(over.values()) == [["w.1|t"]]
    world.lease(2, ask_own("t", 1, 1))
    world.advance(1_000 + step_ms)
    world.ledger.due_claims()
    world.ledger.lengthen_claims(step_ms)
    world.advance(1_999)
    assert "w.2|t" not in [name for names in world.ledger.due_claims().values() for name in names]
    world.advance(1)
    assert world.ledger.due_claims() == due


def test_no_claim_is_made_longer_than_a_new_one(live: LawWorld) -> None:
    """A longer limit is set that no clock step calls for."""
    live.lease(1, ask_own("t", 0, 1))
    live.advance(1_000)
    live.ledger.lengthen_claims(3_600_000)
    live.ledger.lengthen_claims(3_600_000)
    live.advance(2_999)
    assert live.ledger.due_claims() == {}
    live.advance(1)
    assert live.ledger.due_claims() == {TOPICS.partition_of("t"): ["w.1|t"]}


@pytest.mark.parametrize("named", [False, True], ids=["live", "due"])
def test_claims_from_before_the_clock_was_set_back_end_no_later_than_one_made_now(
    live: LawWorld, *, named: bool
) -> None:
    """Else the envelopes of a dead worker wait for as long as that step."""
    due = {TOPICS.partition_of("t"): ["w.1|t"]}
    live.lease(1, ask_own("t", 0, 1), claim_ms=13_000)
    if named:
        live.advance(13_000)
        assert live.ledger.due_claims() == due
    live.advance(-3_600_000)
    assert live.ledger.due_claims() == {}
    live.advance(12_999)
    assert live.ledger.due_claims() == {}
    live.advance(1)
    assert live.ledger.due_claims() == due


def test_a_claim_lasts_as_long_as_its_channel_may_take(world: LawWorld) -> None:
    """The timeout of a slow channel does not hold up the envelopes of the others, and other channels are claimed for as
    long as any channel may take."""
    for task, channel in {"quick": "quick", "slow": "slow", "other": "other"}.items():
        world.add(task, channel=channel)
    asks = [ask(own_lane(task), want(task, 0, 1)) for task in ("quick", "slow", "other")]
    terms = {"quick": ChannelTerms(3_000), "slow": ChannelTerms(60_000)}
    world.lease(1, *asks, claim_ms=60_000, channels=terms)
    world.advance(2_999)
    assert world.ledger.due_claims() == {}
    world.advance(1)
    assert list(world.ledger.due_claims().values()) == [["w.1|quick"]]
    world.advance(56_999)
    assert {name for names in world.ledger.due_claims().values() for name in names} == {"w.1|quick"}
    world.advance(1)
    due = {name for names in world.ledger.due_claims().values() for name in names}
    assert {"w.1|slow", "w.1|other"} <= due


def test_what_is_given_back_after_a_step_of_the_clock_is_refunded(world: LawWorld) -> None:
    world.set_capacity(1_000)
    world.add("t")
    for number in (1, 2):
        world.lease(number, ask_own("t", 0, 1))
        world.advance(100)
    world.advance(60_000)
    world.ledger.lengthen_claims(60_000)
    world.lease(3, given_back=[given_back("t", 0, 1, "w.2")])
    assert world.stats()["returned:high"] == world.stats()["granted:high"]


def test_a_due_claim_is_named_again_after_a_while(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 1))
    live.advance(3_000)
    assert live.ledger.due_claims()
    assert not live.ledger.due_claims()
    live.advance(3_000)
    assert live.ledger.due_claims()


def test_a_record_of_an_ended_claim_counts_and_leaves_the_next_claim_alone(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 10))
    live.advance(3_000)
    live.end_claims()
    live.lease(2, ask_own("t", 0, 10))
    live.record("t", run(0, 4), claim="w.1")
    assert live.counts("t")["sent"] == 4
    assert live.claims("t") == 1
    live.record("t", run(0, 10), claim="w.2")
    assert live.counts("t")["sent"] == 10
    assert live.claims("t") == 0
    assert live.stats()["repeats"] == 4


def test_a_doubled_record_does_not_end_a_claim_on_other_envelopes(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 10))
    record = outcomes("t", run(0, 5))
    fold(live, record, record)
    assert live.claims("t") == 1
    live.advance(3_000)
    live.end_claims()
    assert live.statuses(2, ask_own("t", 0, 10)) == [(DROP, 5), (GRANTED, 5)]


def test_what_is_given_back_is_free_at_once_and_stays_with_who_claims_it_next(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 10))
    back = given_back("t", 3, 4)
    answer = live.lease(2, ask_own("t", 0, 10), given_back=[back], claim_ms=60_000)
    assert statuses(answer) == [(HELD, 3), (GRANTED, 4), (HELD, 3)]
    live.advance(3_000)
    live.end_claims()
    again = live.lease(3, ask_own("t", 0, 10))
    assert statuses(again) == [(GRANTED, 3), (HELD, 4), (GRANTED, 3)]


def test_giving_back_what_is_recorded_or_of_a_claim_that_ended_changes_nothing(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 4))
    live.record("t", run(0, 2))
    recorded = given_back("t", 0, 2)
    unknown = given_back("t", 2, 2, "w.99")
    answer = live.lease(2, ask_own("t", 0, 4), given_back=[recorded, unknown])
    assert statuses(answer) == [(DROP, 2), (HELD, 2)]


def test_giving_all_back_ends_the_claim(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 4))
    live.lease(2, given_back=[given_back("t", 0, 4)])
    assert live.claims("t") == 0
    live.advance(10_000)
    assert live.ledger.due_claims() == {}


def test_the_next_attempt_waits_for_the_fold_and_is_claimed_on_its_own(live: LawWorld) -> None:
    retry = ask_retry(want("t", 0, 1, attempt=1, size=2))
    live.lease(1, ask_own("t", 0, 1, size=3))
    assert live.statuses(2, retry) == [(HELD, 1)]
    live.record("t", mixed(0, [0, RETRY, RETRY]))
    assert live.statuses(3, retry) == [(GRANTED, 1)]
    assert live.statuses(1, retry, worker="other") == [(HELD, 1)]
    live.advance(3_000)
    live.end_claims()
    assert live.statuses(2, retry, worker="other") == [(GRANTED, 1)]


def test_a_later_attempt_is_held_until_the_one_before_is_recorded(live: LawWorld) -> None:
    live.record("t", mixed(0, [RETRY]))
    assert live.statuses(1, ask_retry(want("t", 0, 1, attempt=2))) == [(HELD, 1)]


def test_recorded_with_open_targets_is_published_again(live: LawWorld) -> None:
    """Attempt 0 comes back after its record (the worker died before it published the next one, or before the ack)."""
    live.lease(1, ask_own("t", 0, 2, size=4))
    live.record("t", run(0, 1, size=4), mixed(1, [0, RETRY, 1, RETRY]))
    answer = live.lease(2, ask_own("t", 0, 3, size=4))
    assert statuses(answer) == [(DROP, 1), (REPUBLISH, 1), (GRANTED, 1)]
    piece = answer.lanes[0][0][1]
    assert (piece.attempt, piece.open_positions) == (0, [1, 3])
    live.record("t", mixed(1, [RETRY, 0], attempt=1, size=4, positions=[1, 3]))
    piece = live.lease(3, ask_retry(want("t", 1, 1, attempt=1))).lanes[0][0][0]
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
    world.add("t")
    world.set_capacity(rate)
    granted: list[int] = []
    for number, (worker, wants) in enumerate(calls, 1):
        world.advance(100)
        lane = ask(own_lane("t"), *(want("t", first, count) for first, count in wants))
        for _, _, place, piece in each_piece([lane], world.lease(number, lane, worker=worker)):
            granted += range(place, place + piece.count) if piece.status == GRANTED else ()
    assert len(granted) == len(set(granted))


def test_a_cancelled_task_is_found_behind_any_number_of_live_ones(world: LawWorld) -> None:
    """They are looked through page by page."""
    for number in range(PAGE + 1):
        world.add(f"t{number:03}")
    last = f"t{PAGE:03}"
    world.seal(last, 1)
    world.change(last, "cancelled", "1")
    assert [found.task for found in world.ledger.closable()] == [last]
