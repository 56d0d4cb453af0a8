"""The row "One target's way": a broker, a bookie or a Redis that is slow is above the limit in its own panel alone."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring import FOLDER, expressions, program, texts

BOOKIE = 'pulsar_managedLedger_client_per_channel_bookie_client_ADD_ENTRY{{bookie="{}",success="true",quantile="0.99"}}'
PROBES = 'fairlane_estate_probe_seconds_bucket{{broker="{}",le="{}"}}'
FAILURES = 'fairlane_estate_probe_failures_total{{broker="{}"}}'
REDIS = 'fairlane_redis_call_seconds_bucket{{instance="w",script="lease",le="{}"}}'
RISING, STILL = "0+60x10", "0x10"
WELL = {
    **{BOOKIE.format(bookie): "20x10" for bookie in ("1", "2", "3")},
    **{PROBES.format(broker, le): RISING for broker in ("1", "2") for le in ("0.05", "+Inf")},
    **{FAILURES.format(broker): STILL for broker in ("1", "2")},
    **{REDIS.format(le): RISING for le in ("0.01", "0.5", "+Inf")},
}
"""Values each minute, by series."""
CASES: dict[str, dict[str, str]] = {
    "": {},
    "1 Through each broker": {
        PROBES.format("2", "0.05"): STILL,
        PROBES.format("2", "+Inf"): STILL,
        FAILURES.format("2"): "0+20x10",
    },
    "3 Stored by the bookie": {BOOKIE.format("2"): "400x10"},
    "4 Allowed by Redis": {REDIS.format("0.01"): STILL},
}
"""Series that change by the panel that is above its limit."""


def limited() -> dict[str, tuple[list[str], float]]:
    """Return expressions and limit of the row's panels that have one, by title."""
    name = "board-service.json"
    panels: list[dict[str, Any]] = json.loads(texts()[name])["panels"]
    asked = list(expressions({name: texts()[name]}))
    begin = next(index for index, panel in enumerate(panels) if panel["title"].startswith("One target's way"))
    end = next(index for index, panel in enumerate(panels) if index > begin and panel["type"] == "row")
    found = {}
    for panel in panels[begin + 1 : end]:
        steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
        if len(steps) == 2:
            of_panel = [expression for where, expression in asked if where == f"{name}: {panel['title']}"]
            found[panel["title"]] = of_panel, steps[1]["value"]
    return found


def test_the_panels_with_a_limit_are_those_of_the_cases() -> None:
    assert set(limited()) == set(CASES) - {""}


@pytest.mark.parametrize("slow", CASES)
def test_what_is_slow_is_above_the_limit_in_its_panel_alone(slow: str, tmp_path: Path) -> None:
    series = [{"series": name, "values": values} for name, values in {**WELL, **CASES[slow]}.items()]
    checks = [
        {
            "expr": " + ".join(f"(count(({one}) > {limit}) or vector(0))" for one in expressions),
            "eval_time": "8m",
            "exp_samples": [{"labels": "{}", "value": int(title == slow)}],
        }
        for title, (expressions, limit) in limited().items()
    ]
    case = {
        "rule_files": [str(FOLDER / "rules.yaml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}],
    }
    file = tmp_path / "case.yaml"
    file.write_text(yaml.safe_dump(case))
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
