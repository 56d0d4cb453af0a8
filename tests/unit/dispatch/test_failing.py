"""Whether the tries of a task fail."""

from typing import Any

import pytest

from dispatcher.analysis.failing import FAILING, STUCK, fails_by, trouble
from dispatcher.analysis.send_errors import CAP_TEXT, SendError
from dispatcher.model.view import TargetCounts
from tests.unit.tasks import task_view

NOW_MS = 1_800_000_000_000
UNSENT = SendError("", 0, 0, 0, NOW_MS + 30_000, 9, NOW_MS, "Failed to connect")
REFUSED = SendError("503: busy", 9, NOW_MS, 1, NOW_MS + 5_000)
HALF = TargetCounts(total=100, pending=50, sent=50)


@pytest.mark.parametrize(
    ("error", "fields", "expected"),
    [
        (UNSENT, {}, "Failed to connect"),
        (UNSENT, {"targets": HALF}, "Failed to connect"),
        (REFUSED, {}, "503: busy"),
        (SendError("", 9, NOW_MS, 1, 0), {}, "no reason given"),
        (SendError("503: busy", 9, NOW_MS, 2, 0), {"targets": HALF}, "503: busy"),
        (REFUSED, {"targets": HALF}, ""),
        (None, {}, ""),
        (UNSENT, {"rate": 1.0}, ""),
        (UNSENT, {"last_outcome_ms": NOW_MS + 1}, ""),
        (UNSENT, {"last_outcome_ms": NOW_MS - 1}, "Failed to connect"),
        (UNSENT, {"state": "paused"}, ""),
        (UNSENT, {"targets": TargetCounts(total=5, sent=5)}, ""),
        (SendError("503: busy", 9, NOW_MS - 61_000, 2, NOW_MS - 60_001), {}, ""),
        (SendError("503: busy", 9, NOW_MS - 600_000, 5, NOW_MS + 1), {}, "503: busy"),
        (SendError("", 0, 0, 0, NOW_MS, 9, NOW_MS, CAP_TEXT), {}, ""),
    ],
)
def test_task_fails_while_its_tries_fail_and_nothing_is_sent(
    error: SendError | None, fields: dict[str, Any], expected: str
) -> None:
    assert fails_by(task_view("sale", 5, last_error=error, **fields), NOW_MS) == expected


def test_task_is_stuck_while_it_has_no_end_unless_it_is_to_be_tried_again() -> None:
    again = SendError("503: busy", 9, NOW_MS, 1, NOW_MS + 5_000)
    waits = task_view("sale", targets=HALF, last_error=again)
    assert trouble(waits, None, NOW_MS) == ""
    assert trouble(waits, None, NOW_MS + 5_000) == STUCK
    assert trouble(waits, 9.0, NOW_MS + 5_000) == ""
    assert trouble(task_view("sale", 5, last_error=again), None, NOW_MS) == FAILING
