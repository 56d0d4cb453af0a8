"""Prometheus' own checks of the alert rules: each fires when it should, and is silent at a near miss."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring import FOLDER, alerts, program

HERE = Path(__file__).parent
NAMES = {rule["alert"] for rule in alerts()}


def promtool(*arguments: str) -> str:
    """Return its output. Fails if it finds anything wrong."""
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def checks_of(file: str) -> list[dict[str, Any]]:
    return [one for case in yaml.safe_load((HERE / file).read_text())["tests"] for one in case["alert_rule_test"]]


def test_prometheus_takes_the_rules_and_the_example() -> None:
    assert "SUCCESS" in promtool("check", "rules", str(FOLDER / "rules.yaml"))
    assert "SUCCESS" in promtool("check", "config", str(FOLDER / "prometheus.yaml"))


@pytest.mark.parametrize("file", ["firing.yaml", "silent.yaml"])
def test_alerts_fire_and_are_silent(file: str) -> None:
    promtool("test", "rules", str(HERE / file))


def test_each_alert_is_tested_for_firing_and_for_silence() -> None:
    assert {one["alertname"] for one in checks_of("firing.yaml") if one["exp_alerts"]} == NAMES
    assert all(one["exp_alerts"] for one in checks_of("firing.yaml"))
    assert {one["alertname"] for one in checks_of("silent.yaml")} == NAMES
    assert not any(one["exp_alerts"] for one in checks_of("silent.yaml"))


def test_each_severity_of_an_alert_is_tested_for_firing() -> None:
    fired = {
        (one["alertname"], alert["exp_labels"]["severity"])
        for one in checks_of("firing.yaml")
        for alert in one["exp_alerts"]
    }
    assert fired == {(rule["alert"], rule["labels"]["severity"]) for rule in alerts()}


def test_the_tests_of_rules_find_a_rule_that_is_wrong(tmp_path: Path) -> None:
    """The firing tests fail for rules that never hold."""
    rules = (FOLDER / "rules.yaml").read_text().replace("for: ", "for: 9")
    (tmp_path / "rules.yaml").write_text(rules)
    case = (HERE / "firing.yaml").read_text().replace("../../../../deploy/monitoring/rules.yaml", "rules.yaml")
    (tmp_path / "case.yaml").write_text(case)
    command = [program("promtool"), "test", "rules", str(tmp_path / "case.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert all(f"alertname: {name}," in done.stdout + done.stderr for name in sorted(NAMES)), done.stdout + done.stderr
