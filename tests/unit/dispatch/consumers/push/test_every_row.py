"""Every row of both verdict tables is played over TLS, and its effect is seen at the courier."""

from typing import Any

import pytest

from dispatcher.channels import apns_answers, fcm_answers
from dispatcher.channels.guards.trouble import KINDS
from dispatcher.channels.verdict_table import Effect, Row, VerdictTable
from dispatcher.wire.outcome import RETRY, UNKNOWN, UNSENT, Outcome
from tests.unit.dispatch.consumers.push.rig import Rig

WAIT_S = 77
CODES = {
    Effect.SENT: int(Outcome.SENT),
    Effect.DEAD: int(Outcome.INVALID),
    Effect.WRONG: int(Outcome.FAILED),
    Effect.PAYLOAD: int(Outcome.FAILED),
    Effect.LATER: RETRY,
    Effect.LIMIT: UNSENT,
    Effect.CREDENTIALS: UNSENT,
    Effect.DOWN: UNSENT,
}
FCM: tuple[str, dict[str, Any]] = ("fcm", {})
TABLES = {"fcm": fcm_answers.TABLE, "apns": apns_answers.TABLE}


def answer_rule(row: Row) -> dict[str, Any]:
    """Return the rule that plays a row. Of a class of statuses, the first is played."""
    status = row.status if row.status >= 100 else row.status * 100
    return {"status": status, "code": row.code, "detail": row.detail, "retry_after_s": WAIT_S}


async def test_a_row_leads_to_its_effect(at: Rig) -> None:
    for number, row in enumerate(TABLES[at.name].rows):
        await play(at, TABLES[at.name], row, number)


async def play(at: Rig, table: VerdictTable, row: Row, number: int) -> None:
    at.rule(answers=[answer_rule(row)])
    at.gate.open_all()
    at.gate.rows.clear()
    targets = at.targets(12, first=100 * number)
    verdicts = await at.deliver(targets)
    code = UNKNOWN if row.may_be_taken else CODES[row.effect]
    assert {verdict.code for verdict in verdicts if verdict} == {code}, (row, verdicts)
    assert at.gate.rows
    assert all(found is row for found in at.gate.rows), (row, at.gate.rows)
    kinds = {trouble.kind for trouble in at.gate.troubles}
    pauses = row.effect in KINDS and not row.in_part  # others were sent
    assert kinds == ({KINDS[row.effect]} if pauses else set()), row
    accepted = sum(at.site.accounts.accepted[target] for target in targets)
    assert accepted == (len(targets) if row.effect is Effect.SENT else 0), row
    first = verdicts[0]
    assert first is not None
    assert row.effect is Effect.SENT or row.note.rstrip(".") in first.reason
    assert (first.died_ms > 0) == (row.status == 410), row
    assert bool(first.died_ms) == (row.status == 410), "APNs names the time of death"
    if first.code in (RETRY, UNSENT, UNKNOWN):
        asked_s = WAIT_S if at.name == "fcm" and not row.in_part else 0  # APNs never names a time
        wait_s = max(row.wait_s, asked_s) or (60.0 if first.code == UNSENT else None)
        longest_s = max((verdict.retry_after_s or 0.0 for verdict in verdicts if verdict), default=0.0)
        assert longest_s == pytest.approx(wait_s or 0.0, abs=2), row
    assert any(verdict.paused for verdict in verdicts if verdict) == pauses, row


@pytest.mark.parametrize(
    ("at", "status", "code"),
    [*((FCM, status, UNKNOWN) for status in (500, 502, 504)), (FCM, 503, UNSENT), (("apns", {}), 500, UNKNOWN)],
    indirect=["at"],
)
async def test_a_target_is_unsent_only_if_the_provider_cannot_have_taken_it(at: Rig, status: int, code: int) -> None:
    at.rule(answers=[{"status": status, "taken": code == UNKNOWN}])
    [target] = at.targets(1)
    [verdict] = await at.deliver([target])
    assert verdict is not None
    assert (verdict.code, at.accepted([target])) == (code, [int(code == UNKNOWN)])
    assert str(status) in verdict.reason
