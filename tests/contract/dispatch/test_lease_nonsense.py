"""An envelope that passes decoding never makes the lease script fail, nor the fold of what comes of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.engine.runs import EnvelopeRun
from dispatcher.ports import Delivery
from dispatcher.wire.envelope import decode_envelope
from dispatcher.wire.lease import LaneAsk, Want
from dispatcher.wire.outcome import RETRY, ClaimsEnded, Outcomes, encode_record
from tests import records
from tests.contract.ledger_crowd import assert_tallied
from tests.contract.ledger_worlds import (
    LawWorld,
    ask,
    ask_own,
    ask_retry,
    ask_shared,
    back_of,
    mixed,
    own_lane,
    statuses,
)
from tests.near_envelopes import readable

LANES = st.sampled_from(["own", "shared", "retry"])


def lane_ask(kind: str, wants: list[Want]) -> LaneAsk:
    match kind:
        case "shared":
            return ask_shared(*wants)
        case "retry":
            return ask_retry(*wants)
        case _:
            return ask(own_lane("bad"), *wants)


def test_no_envelope_makes_lease_or_fold_fail_or_changes_another_task(world: LawWorld) -> None:
    """One world for all examples: what each leaves there must not harm the next."""
    for task in ("bad", "innocent"):
        world.add(task)
    number = 0

    @settings(deadline=None)
    @given(st.lists(readable("bad", "unknown"), min_size=1, max_size=5), LANES, st.sampled_from([0, 9]))
    def leases(drawn: list[bytes], kind: str, code: int) -> None:
        nonlocal number
        number += 1
        wants = [EnvelopeRun(Delivery(decode_envelope(body), None, 0.0)).want() for body in drawn]
        answer = world.lease(number, lane_ask(kind, wants), ask_own("innocent", 10 * number, 10))
        assert statuses(answer, 1) == [(0, 10)]
        claim = f"w.{number}"
        bodies = [encode_record(_outcomes(claim, body, code)) for body in drawn[::2]]
        bodies.append(encode_record(ClaimsEnded(1, [f"{claim}|bad", f"{claim}|unknown"])))
        cursor = world.fold.cursor(0)
        assert world.fold.apply(0, cursor, str(number), bodies).applied
        number += 1
        world.lease(number, given_back=[back_of(one, claim, "lane", one.first, one.count) for one in wants])

    leases()
    assert "malformed" not in world.stats()
    assert world.counts("innocent") == {"sent": 0, "invalid": 0, "failed": 0, "expired": 0, "cancelled": 0}
    assert_tallied(world)


def _outcomes(claim: str, body: bytes, code: int) -> Outcomes:
    """Return the outcome record that a worker writes for this envelope."""
    one = decode_envelope(body)
    codes, delay_s = [code] * len(one.targets), 600 if code == RETRY else 0
    fields = {"writer": one.writer, "attempt": one.attempt, "delay_s": delay_s}
    part = mixed(one.sequence, codes, size=one.size, positions=one.positions, **fields)
    return records.outcomes(part, task=one.task, claim=claim, at_ms=1, channel=one.channel, app=one.app)
