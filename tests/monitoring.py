"""The contents of deploy/monitoring for its tests: expressions, the metrics they name, and Prometheus' programs."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy" / "monitoring"
OF_PROMETHEUS = {"up", "ALERTS"}
"""Metrics that Prometheus makes itself."""


def expressions(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (where, expression) of the panels and rules in files by name."""
    for name, text in files.items():
        if name.endswith(".json"):
            for panel in json.loads(text)["panels"]:
                for target in panel.get("targets", ()):
                    yield f"{name}: {panel['title']}", target["expr"]
        else:
            for rule in rules(text):
                yield f"{name}: {rule.get('alert') or rule['record']}", rule["expr"]


def rules(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def metrics_of(expression: str) -> set[str]:
    """Return the metrics that servers have to serve for an expression. Raises ValueError if it is none."""
    named: set[str] = set()

    def visit(part: promql_parser.Expr) -> bool:
        if isinstance(part, promql_parser.VectorSelector):
            assert part.name, f"a selector without a name: {part}"
            named.add(part.name)
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return {name for name in named - OF_PROMETHEUS if ":" not in name}


def program(name: str) -> str:
    """Return the path of prometheus or promtool. Skips the test if it is missing, which is a failure with CI=true."""
    found = shutil.which(name) or shutil.which(name, path=str(ROOT / ".venv" / "share" / "prometheus" / "bin"))
    if found is None:
        missing = f"no {name}: run scripts/prometheus.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found
