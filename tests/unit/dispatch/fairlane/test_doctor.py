"""`fairlane doctor`: its last line agrees with its findings, no server that hangs keeps it for long, and it says that a
guard is missing where one is counted on."""

import pytest

from backends.settings import EstateSettings, PulsarSettings, RedisSettings
from backends.system_clock import SystemClock
from dispatcher.analysis.finding import Finding
from estate.facts.look import judge_settings, read_guarded
from estate.findings import estate_findings
from estate.rules.guarded import Guarded
from estate.rules.node_life import NodeKind, NodeRecord
from fairlane.checks import doctor
from fairlane.settings import Settings
from tests.unit.command_line import CommandLine

HELD = NodeRecord(kind=NodeKind.BOOKIE, name="b:1", state="isolated", by_guard=True)
NOWHERE = PulsarSettings(url="pulsar://127.0.0.1:9", admin_url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("levels", "message", "code"),
    [
        (["ok", "ok"], "all well", 0),
        (["ok", "warn"], "no check fails, 1 of 2 warn", 0),
        (["fail", "warn"], "1 of 2 checks fail", 1),
    ],
)
def test_it_says_how_many_checks_fail_or_warn(
    levels: list[str], message: str, code: int, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setattr(
        "fairlane.cli.handlers.pulsar_setup.examine", lambda *_: [Finding(level, "it", "") for level in levels]
    )
    assert cli(["doctor"], code).err.strip().splitlines()[-1] == message


@pytest.mark.parametrize(("given_s", "limit_s"), [(30.0, doctor.ANSWER_S), (2.0, 2.0)])
def test_each_request_to_pulsar_has_a_limit(given_s: float, limit_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def checked(settings: PulsarSettings | Settings) -> list[Finding]:
        pulsar = settings.pulsar if isinstance(settings, Settings) else settings
        limits.append(pulsar.operation_timeout_s)
        return []

    monkeypatch.setattr("backends.pulsar.provision.check", checked)
    monkeypatch.setattr("estate.findings.estate_findings", checked)
    monkeypatch.setattr(doctor, "view_findings", checked)
    doctor.examine(Settings(pulsar=PulsarSettings(operation_timeout_s=given_s)), SystemClock())
    assert limits == [limit_s] * 3


def findings(monkeypatch: pytest.MonkeyPatch, guarded: Guarded, *, guard: bool) -> list[str]:
    monkeypatch.setattr("estate.findings.read_guarded", lambda _: guarded)
    settings = Settings(pulsar=NOWHERE, estate=EstateSettings(guard=guard))
    return [one.what for one in estate_findings(settings) if "guard" in one.what]


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
