"""A lease is refunded once for targets that the record reports as unsent, and no second sees more than its cap allows.

A refund is the part of the grant that the cap has not let through since: that much is missing in the bucket because of
it. So no second sees more sent than the cap, its burst and a largest envelope, however late a refund comes.
"""

import random
from collections.abc import Sequence

import pytest

from dispatcher.model.pools import Cap
from dispatcher.wire.outcome import RETRY, UNKNOWN, UNSENT, ClaimsEnded
from lab.laws import CapSince, overshoot
from tests.contract.ledger_crowd import assert_tallied
from tests.contract.ledger_worlds import LawWorld, ask_own, fold, mixed, outcomes, set_cap

SIZE = 100
REFUNDED = ["capacity", "cap:app:shop", "task"]
"""Caps that get back what was not sent."""
PACED = ["cap:channel:null", "cap:app_channel:shop/null"]


def granted(world: LawWorld, number: int, first: int, count: int = 1) -> int:
    """Ask for envelopes. Return how many are granted."""
    return world.granted(number, ask_own("t", first, count, size=SIZE))


def report(sequence: int, sent: int, code: int = UNSENT) -> Sequence[int]:
    return [0] * sent + [code] * (SIZE - sent)


def waits_s(world: LawWorld, number: int, first: int) -> float:
    """Return after how many seconds the next envelope is granted, by tenths."""
    for tenths in range(1_000):
        if granted(world, number + tenths, first):
            return tenths / 10
        world.advance(100)
    raise AssertionError("never granted")


@pytest.fixture
def slow(live: LawWorld, request: pytest.FixtureRequest) -> LawWorld:
    """Five targets a second, of which an envelope of a hundred has just been granted on credit."""
    set_cap(live, getattr(request, "param", "task"), "5")
    assert waits_s(live, 1, 0) < 2
    return live


@pytest.mark.parametrize("slow", REFUNDED, indirect=True)
def test_what_was_not_sent_can_be_granted_to_others(slow: LawWorld) -> None:
    slow.record("t", mixed(0, report(0, 10)), claim=last_claim(slow))
    assert waits_s(slow, 100, 1) <= 3, "ten were sent at five a second"
    assert_tallied(slow)


def last_claim(world: LawWorld) -> str:
    members: list[bytes] = world.view.command("ZRANGE", world.view.keys.claims, -1, -1)
    return members[0].decode().partition("|")[0]


@pytest.mark.parametrize("code", [RETRY, UNKNOWN])
def test_what_was_sent_is_spent_whatever_became_of_it(slow: LawWorld, code: int) -> None:
    slow.record("t", mixed(0, report(0, 10, code)), claim=last_claim(slow))
    assert waits_s(slow, 100, 1) >= 17


@pytest.mark.parametrize("slow", PACED, indirect=True)
def test_a_paced_cap_gets_nothing_back(slow: LawWorld) -> None:
    """The targets that follow on its time line may be on their way."""
    slow.record("t", mixed(0, report(0, 10)), claim=last_claim(slow))
    assert waits_s(slow, 100, 1) >= 17


def test_a_record_that_is_stored_or_folded_twice_refunds_once(slow: LawWorld) -> None:
    claim, part = last_claim(slow), mixed(0, report(0, 60))
    for _ in range(3):
        slow.record("t", part, claim=claim)
    assert waits_s(slow, 100, 1) >= 11, "sixty were sent"
    assert slow.stats()["returned:high"] == 40
    assert_tallied(slow)


def test_two_workers_that_record_one_round_are_refunded_what_each_paid(live: LawWorld) -> None:
    """The first stalls until its claim has ended: its credit is spent, and its late record refunds nothing."""
    set_cap(live, "task", "5:150")
    assert granted(live, 1, 0) == 1
    fold(live, ClaimsEnded(1, ["w.1|t"]))
    assert granted(live, 2, 0) == 1
    live.record("t", mixed(0, report(0, 0)), claim="w.1")
    assert "returned:high" not in live.stats()
    live.record("t", mixed(0, report(0, 0)), claim="w.2")
    assert live.stats()["returned:high"] == SIZE
    assert_tallied(live)


def test_after_the_lease_nothing_is_refunded(slow: LawWorld) -> None:
    slow.advance(1_000)
    slow.record("t", mixed(0, report(0, 10)), claim=last_claim(slow))
    assert "returned:high" not in slow.stats()
    assert waits_s(slow, 100, 1) >= 16
    assert_tallied(slow)


def test_what_a_record_leaves_out_because_it_was_not_due_was_not_paid_for(live: LawWorld) -> None:
    """A later round pays for targets that are due; the others are unsent in its record, and are not refunded."""
    set_cap(live, "task", "5:200")
    for number, codes in ((1, [RETRY, UNSENT, UNSENT]), (2, [0, UNSENT, UNSENT])):
        live.lease(number, ask_own("t", 0, 1, size=3 if number == 1 else 1))
        live.record("t", mixed(0, codes, attempt=number - 1), claim=f"w.{number}")
    assert live.stats().get("returned:high", 0) == 2


@pytest.mark.parametrize("field", REFUNDED)
def test_what_the_cap_has_let_through_since_is_not_refunded(live: LawWorld, field: str) -> None:
    """A bucket that has filled up again, and was emptied, would be filled twice."""
    set_cap(live, field, "1000")
    granted(live, 1, 0, 9)
    live.advance(1_000)
    early = granted(live, 2, 100, 2)
    live.advance(250)
    count = granted(live, 3, 200, 9)
    live.record("t", *[mixed(100 + i, report(0, 0)) for i in range(early)], claim="w.2")
    for number in range(4, 14):
        live.advance(100)
        count += granted(live, number, 100 * number, 9)
    assert early == 2
    assert count * SIZE <= 1_000 + 250 + SIZE


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cap", [Cap(20, 0), Cap(300, 500), Cap(3_000, 100)], ids=lambda cap: cap.text)
def test_no_second_sees_more_sent_than_the_cap_however_much_is_unsent(world: LawWorld, cap: Cap, seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice([1, 7, 50])
    world.add("t")
    set_cap(world, rng.choice([*REFUNDED, *PACED]), cap.text)
    sent: dict[int, int] = {}
    """Targets that were sent, by the time of their grant in us."""
    claimed: list[tuple[str, int, int]] = []
    now_ms, first = 0, 0
    for number in range(1, 80):
        step_ms = rng.choice([0, 5, 40, 100, 300])
        world.advance(step_ms)
        now_ms += step_ms
        count = world.granted(number, ask_own("t", first, rng.choice([1, 20, 400]), size=size))
        sent[now_ms] = sent.get(now_ms, 0) + count * size
        claimed += [(f"w.{number}", sequence, now_ms) for sequence in range(first, first + count)]
        first += count
        reported = rng.sample(claimed, rng.randint(0, min(len(claimed), 50)))
        claimed = [one for one in claimed if one not in reported]
        records = []
        for claim, sequence, at_ms in reported:
            unsent = rng.choice([0, size, rng.randint(0, size)])
            sent[at_ms] -= unsent
            records.append(outcomes("t", mixed(sequence, [0] * (size - unsent) + [UNSENT] * unsent), claim=claim))
        fold(world, *records)
    doses = [(at_ms * 1_000, targets) for at_ms, targets in sorted(sent.items())]
    worst = overshoot(doses, [CapSince(0, cap)], 3 * size)
    assert worst is None or worst[0] <= worst[1] + 1e-6, worst
    assert_tallied(world)
