"""The last line of `fairlane doctor` agrees with its findings."""

import pytest

from backends.pulsar.provision import Finding
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
