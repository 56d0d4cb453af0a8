"""The advice of `task why` after a provider's answer, and the lines about errors and put-back targets."""

import pytest

from dispatcher.analysis.send_errors import SendError
from dispatcher.analysis.task_times import PROVIDER, RETRY_WAIT
from dispatcher.analysis.why import FLOW_PAUSED, Why
from dispatcher.model.flow_pause import FlowPause, PauseKind
from fairlane.cli.handlers.why import say_error
from fairlane.figures.why_rows import advice

CAP = "fairlane app cap shop RATE --channel {channel}"


def explained(channel: str, reason: str, pause: PauseKind | None = None) -> Why:
    error = SendError(reason, 1, 1, 1, 0) if reason else None
    flow_pause = FlowPause(kind=pause, since_ms=1) if pause else None
    return Why("t", "running", 1, [], "", channel, "shop", flow_pause, error)


@pytest.mark.parametrize("cause", [FLOW_PAUSED, RETRY_WAIT, PROVIDER])
@pytest.mark.parametrize(
    ("channel", "reason", "pause", "is_capped"),
    [
        ("fcm", "", PauseKind.LIMIT, True),
        ("fcm", "429 QUOTA_EXCEEDED: the sender's quota is used up", None, True),
        ("fcm", "gave up after 8 attempts; the last: 429 QUOTA_EXCEEDED: …", None, True),
        ("http", "HTTP 429: slow down", None, True),
        ("sms", "HTTP 429", None, True),
        ("fcm", "", PauseKind.CREDENTIALS, False),
        ("fcm", "503 UNAVAILABLE: the provider is overloaded", None, False),
        ("http", "HTTP 500: order 429 failed", None, False),
        ("apns", "429 TooManyRequests: too many for this device", None, False),
        ("fcm", "", None, False),
    ],
)
def test_a_cap_helps_where_the_provider_said_too_fast(
    cause: str, channel: str, reason: str, pause: PauseKind | None, is_capped: bool
) -> None:
    assert (advice(cause, explained(channel, reason, pause)) == CAP.format(channel=channel)) == is_capped


@pytest.mark.parametrize(
    ("error", "is_live", "expected"),
    [
        (SendError("503: busy", 104, 1, 1, 0), True, ["104 sends failed so far"]),
        (SendError("503: busy", 1, 1, 1, 0, 2_991, 1, "the cap"), True, ["1 send failed", "2,991 targets put back"]),
        (SendError("503: busy", 1, 1, 1, 0, 2_991, 1, "the cap"), False, ["1 send failed"]),
        (SendError("", 0, 0, 0, 0, 1_000, 1, "paused"), True, ["1,000 targets put back unsent"]),
        (SendError("", 0, 0, 0, 0, 165, 1, "the cap"), False, []),
    ],
)
def test_put_back_targets_are_no_failed_sends(
    error: SendError, is_live: bool, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    say_error("t", error, is_live=is_live)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(expected)
    assert all(text in line for text, line in zip(expected, lines, strict=True))
