"""The contents of deploy/monitoring for its tests: expressions, the metrics they name, and Prometheus' programs."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

import promql_parser
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy" / "monitoring"
OF_PROMETHEUS = {"up", "ALERTS"}
"""Metrics that Prometheus makes itself."""


def texts(tenant: str = "fairlane") -> dict[str, str]:
    """Return the boards and the rules by the names of their files, for a tenant as the README says."""
    files = (*FOLDER.glob("board-*.json"), FOLDER / "rules.yaml")
    of_usual = {file.name: file.read_text(encoding="utf-8") for file in files}
    return {**of_usual, "rules.yaml": of_usual["rules.yaml"].replace('"fairlane/', f'"{tenant}/')}


def expressions(files: Mapping[str, str], tenant: str = "fairlane") -> Iterator[tuple[str, str]]:
    """Yield (where, expression) of the panels and rules in files by name. All of each variable is chosen."""
    for name, text in files.items():
        if name.endswith(".json"):
            board = json.loads(text)
            chosen = {one["name"]: ".*" for one in board["templating"]["list"]} | {"tenant": tenant}
            for panel in board["panels"]:
                for target in panel.get("targets", ()):
                    yield f"{name}: {panel['title']}", Template(target["expr"]).substitute(chosen)
        else:
            for rule in rules(text):
                yield f"{name}: {rule.get('alert') or rule['record']}", rule["expr"]


def rules(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """Return the rules that are alerts; one with two severities is there twice."""
    return [rule for rule in rules((FOLDER / "rules.yaml").read_text(encoding="utf-8")) if "alert" in rule]


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
