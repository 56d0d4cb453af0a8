"""How `python -m benchmarks controls` tells what should be sent, and when it is."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.controls_seen import NEVER_S, Expected, Sent, is_as_expected, seconds_of_others, seconds_until

TIERS = {"h0": "high", "h1": "high", "m": "medium", "l": "low"}
CHANGED_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({}, {"h0": 0.3, "h1": 0.3, "m": 0.3, "l": 0.1}),
        ({"weights": {"h0": 3.0}}, {"h0": 0.45, "h1": 0.15, "m": 0.3, "l": 0.1}),
        ({"stopped": {"m"}}, {"h0": 6 / 14, "h1": 6 / 14, "m": 0.0, "l": 1 / 7}),
        ({"stopped": set(TIERS)}, dict.fromkeys(TIERS, 0.0)),
        ({"caps": {"h0": 200}}, {"h0": 0.1, "h1": 0.5, "m": 0.3, "l": 0.1}),
    ],
)
def test_parts_follow_weights_stops_and_caps(change: dict[str, object], parts: dict[str, float]) -> None:
    tiers = {"high": 6.0, "medium": 3.0, "low": 1.0}
    found = Expected(TIERS, tiers, **change).parts()  # type: ignore[arg-type]
    assert found == pytest.approx(parts)


@pytest.mark.parametrize(
    ("counts", "parts", "good"),
    [
        ({"a": 1_500, "b": 500}, {"a": 0.75, "b": 0.25}, True),
        ({"a": 1_500, "b": 500}, {"a": 0.5, "b": 0.5}, False),
        ({"a": 2_000}, {"a": 1.0, "b": 0.0}, True),
        ({"a": 15, "b": 5}, {"a": 0.75, "b": 0.25}, False),
        ({}, {"a": 1.0}, False),
        ({}, {"a": 0.0, "b": 0.0}, True),
        ({"a": 5}, {"a": 0.0, "b": 0.0}, False),
    ],
)
def test_a_second_is_as_expected(counts: dict[str, int], parts: dict[str, float], good: bool) -> None:
    assert is_as_expected(counts, parts) is good


def line(at_ms: int, task: str, body: str = "old") -> str:
    """20 targets, as the `log` channel writes them."""
    ts = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    targets = [f"t{number}" for number in range(20)]
    return json.dumps({"ts": ts, "tier": "high", "task": task, "message": {"body": body}, "targets": targets})


def sent(path: Path, lines: Iterable[str]) -> Sent:
    path.write_text("".join(f"{line}\n" for line in lines))
    found = Sent(path)
    found.read()
    return found


def test_a_change_is_seen_once_a_whole_second_is_as_expected(tmp_path: Path) -> None:
    """At first a is sent, from 500 ms after the change on b."""
    log = tmp_path / "log"
    times = range(CHANGED_MS - 2_000, CHANGED_MS + 9_000, 10)
    lines = [line(at_ms, "a" if at_ms < CHANGED_MS + 500 else "b") for at_ms in times]
    log.write_text("\n".join(lines[:100]) + "\n" + lines[100][:20])
    found = Sent(log)
    found.read()
    log.write_text("\n".join(lines) + "\n")
    found.read()
    assert seconds_until(found, CHANGED_MS, {"a": 0.0, "b": 1.0}) == pytest.approx(1.5, abs=0.06)
    assert seconds_until(found, CHANGED_MS, {"a": 0.5, "b": 0.5}) == NEVER_S


def test_a_pause_of_everything_is_seen_once_nothing_was_sent_for_a_second(tmp_path: Path) -> None:
    paused_ms, resumed_ms = CHANGED_MS + 300, CHANGED_MS + 8_200
    times = range(CHANGED_MS - 2_000, CHANGED_MS + 16_000, 10)
    found = sent(tmp_path / "log", (line(ms, "a") for ms in times if not paused_ms <= ms < resumed_ms))
    assert seconds_until(found, CHANGED_MS, {"a": 0.0}) == pytest.approx(1.3, abs=0.06)
    assert seconds_until(found, CHANGED_MS + 8_000, {"a": 1.0}) == pytest.approx(0.7, abs=0.06)


def test_an_edit_is_seen_after_the_last_old_message_of_its_task(tmp_path: Path) -> None:
    edited = [
        line(ms, "a", "old" if ms <= CHANGED_MS + 400 else "new") for ms in range(CHANGED_MS, CHANGED_MS + 900, 10)
    ]
    late = [line(CHANGED_MS + 700, "a"), line(CHANGED_MS + 800, "b"), line(CHANGED_MS - 10, "a")]
    found = sent(tmp_path / "log", [*edited, *late])
    assert seconds_of_others(found.since(CHANGED_MS, "a"), CHANGED_MS, "new") == pytest.approx(0.7)
    assert seconds_of_others(found.since(CHANGED_MS + 710, "a"), CHANGED_MS, "new") == 0.0
    assert seconds_of_others(found.since(CHANGED_MS, "b"), CHANGED_MS, "new") == NEVER_S
    assert seconds_of_others([], CHANGED_MS, "new") == NEVER_S
