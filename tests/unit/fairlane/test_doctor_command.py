"""The last line of `fairlane doctor` agrees with its findings, and no server that hangs keeps it for long."""

import pytest

from backends.settings import PulsarSettings
from backends.system_clock import SystemClock
from dispatcher.analysis.finding import Finding
from fairlane.checks import doctor
from fairlane.settings import Settings
from tests.unit.command_line import CommandLine


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
    monkeypatch.setattr("fairlane.checks.doctor.examine", lambda *_: [Finding(level, "it", "") for level in levels])
    assert cli(["doctor"], code).err.strip().splitlines()[-1] == message


@pytest.mark.parametrize(("given_s", "limit_s"), [(30.0, doctor.ANSWER_S), (2.0, 2.0)])
def test_each_request_to_pulsar_has_a_limit(given_s: float, limit_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def checked(settings: PulsarSettings | Settings) -> list[Finding]:
        pulsar = settings.pulsar if isinstance(settings, Settings) else settings
        limits.append(pulsar.operation_timeout_s)
        return []

    monkeypatch.setattr("backends.pulsar.provision.check", checked)
    monkeypatch.setattr(doctor, "estate_findings", checked)
    monkeypatch.setattr(doctor, "view_findings", checked)
    doctor.examine(Settings(pulsar=PulsarSettings(operation_timeout_s=given_s)), SystemClock())
    assert limits == [limit_s] * 3
