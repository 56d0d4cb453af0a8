"""Every row of every verdict table is played over TLS and HTTP/2, and read back as that row."""

from pathlib import Path
from typing import Any

from dispatcher.channels import apns_answers, fcm_answers
from dispatcher.channels.verdict_table import STRANGE_BODY, Effect, Row, wait_of
from fairlane.fake.rules import read_rules
from tests.unit.fairlane.fake.playing import Playing, apns, apns_target, fcm_target


def rule(row: Row) -> dict[str, Any]:
    """Return the rule that plays a row. Of a class of statuses, the first is played."""
    status = row.status if row.status >= 100 else row.status * 100
    return {"status": status, "code": row.code, "detail": row.detail, "retry_after_s": 77}


async def play(playing: Playing, row: Row, target: str) -> Any:
    playing.site.set_rules(read_rules({"answers": [rule(row)]}, playing.site.provider.table))
    return await playing.push(target)


async def test_of_fcm(playing: Playing) -> None:
    for number, row in enumerate(fcm_answers.TABLE.rows):
        response = await play(playing, row, fcm_target(number))
        header = response.header("retry-after")
        answer = fcm_answers.read_answer(response.status, response.body, float(header) if header else None)
        assert fcm_answers.TABLE.row_of(answer) is row, (row, answer)
        assert (wait_of(row, answer) >= 77) == (row.effect is not Effect.SENT)
        assert playing.site.accounts.accepted[fcm_target(number)] == (row.effect is Effect.SENT)


async def test_of_apns(tmp_path: Path) -> None:
    async with apns(tmp_path) as playing:
        for number, row in enumerate(apns_answers.TABLE.rows):
            response = await play(playing, row, apns_target(number))
            apns_id = response.header("apns-id") or ""
            answer = apns_answers.read_answer(response.status, response.body, apns_id)
            assert apns_answers.TABLE.row_of(answer) is row, (row, answer)
            assert bool(answer.died_ms) == (row.status == 410)
            assert bool(apns_id) == (row.detail != STRANGE_BODY)
            assert playing.site.accounts.accepted[apns_target(number)] == (row.effect is Effect.SENT)
