"""`doctor` says that a guard is missing where one is counted on."""

import pytest

from backends.settings import EstateSettings, PulsarSettings, RedisSettings
from estate.guarded import Guarded
from estate.node_life import NodeKind, NodeRecord
from fairlane.checks import doctor
from fairlane.estate.look import judge_settings, read_guarded
from fairlane.settings import Settings

HELD = NodeRecord(kind=NodeKind.BOOKIE, name="b:1", state="isolated", by_guard=True)
NOWHERE = PulsarSettings(url="pulsar://127.0.0.1:9", admin_url="http://127.0.0.1:9")


def findings(monkeypatch: pytest.MonkeyPatch, guarded: Guarded, *, guard: bool) -> list[str]:
    monkeypatch.setattr(doctor, "read_guarded", lambda _: guarded)
    settings = Settings(pulsar=NOWHERE, estate=EstateSettings(guard=guard))
    return [one.what for one in doctor.estate_findings(settings) if "guard" in one.what]


def test_a_guard_that_is_counted_on_and_does_not_run_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings(monkeypatch, Guarded(), guard=True) == ["estate.guard is set and no guard runs"]
    assert findings(monkeypatch, Guarded("g1"), guard=True) == []
    assert findings(monkeypatch, Guarded(), guard=False) == []
    assert findings(monkeypatch, Guarded(failure="no answer"), guard=True) == []


def test_a_node_that_nobody_would_release_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Guarded(None, {HELD.key: HELD})
    assert findings(monkeypatch, left, guard=False) == [
        "bookie b:1 is isolated, and no guard runs that would release it"
    ]


def test_without_redis_nobody_can_say_who_guards() -> None:
    settings = Settings(pulsar=NOWHERE, redis=RedisSettings(url="redis://127.0.0.1:9", connect_timeout_s=0.2))
    guarded = read_guarded(settings)
    assert guarded.failure
    assert guarded.title is None


def test_the_bounds_of_verdicts_are_in_ms_and_no_look_between_usual_ones_is_cut_short() -> None:
    bounds = judge_settings(EstateSettings(look_s=30.0, release_s=300.0))
    assert (bounds.release_ms, bounds.longest_hold_ms) == (300_000, 3_600_000)
    assert bounds.longest_look_ms >= 30_000
    assert judge_settings(EstateSettings(look_s=0.5)).longest_look_ms >= 5_000
