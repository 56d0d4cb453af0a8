"""How `fairlane bench controls` tells what should be sent, and when it is."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairlane.bench.controls import NEVER_S, Expected, Sent, seconds_until

TIERS = {"h0": "high", "h1": "high", "m": "medium", "l": "low"}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({}, {"h0": 0.3, "h1": 0.3, "m": 0.3, "l": 0.1}),
        ({"weights": {"h0": 3.0}}, {"h0": 0.45, "h1": 0.15, "m": 0.3, "l": 0.1}),
        ({"paused": {"m"}}, {"h0": 6 / 14, "h1": 6 / 14, "m": 0.0, "l": 1 / 7}),
        ({"caps": {"h0": 200}}, {"h0": 0.1, "h1": 0.5, "m": 0.3, "l": 0.1}),
    ],
)
def test_parts_follow_weights_pauses_and_caps(change: dict[str, object], parts: dict[str, float]) -> None:
    tiers = {"high": 6.0, "medium": 3.0, "low": 1.0}
    found = Expected(TIERS, tiers, **change).parts()  # type: ignore[arg-type]
    assert found == pytest.approx(parts)


def test_a_change_is_seen_once_a_whole_second_is_as_expected(tmp_path: Path) -> None:
    """Each 10 ms a target: at first of a, from 500 ms after the change on of b."""
    log, changed_ms = tmp_path / "log", 1_700_000_000_000
    lines = []
    for at_ms in range(changed_ms - 2_000, changed_ms + 9_000, 10):
        ts = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        task = "a" if at_ms < changed_ms + 500 else "b"
        lines.append(json.dumps({"ts": ts, "tier": "high", "task": task, "targets": ["t"]}))
    log.write_text("\n".join(lines[:100]) + "\n" + lines[100][:20])
    sent = Sent(log)
    sent.read()
    log.write_text("\n".join(lines) + "\n")
    sent.read()
    assert seconds_until(sent, changed_ms, {"a": 0.0, "b": 1.0}) == pytest.approx(1.5, abs=0.06)
    assert seconds_until(sent, changed_ms, {"a": 0.5, "b": 0.5}) == NEVER_S
