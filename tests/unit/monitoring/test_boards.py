"""Boards, rules and runbooks belong together, and what is checked in is what scripts/boards writes."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.boards.__main__ import main, rendered
from scripts.boards.alert import Alert
from scripts.boards.alerts import alerts
from scripts.boards.installation import Installation
from tests.monitoring import FOLDER, ROOT, expressions, metrics_of, rules
from tests.unit.test_documents import anchors

FILES = rendered(Installation())
BOARDS = [name for name in FILES if name.endswith(".json")]
ALERTS = alerts(Installation())
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in json.loads(FILES[name])["panels"] if panel["type"] != "row"]


def test_what_is_checked_in_is_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["--check"]), capsys.readouterr().err) == (0, "")


def test_a_stale_and_a_missing_file_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--to", str(tmp_path)]) == 0
    (tmp_path / "rules.yaml").write_text("groups: []\n")
    (tmp_path / "board-estate.json").unlink()
    assert main(["--check", "--to", str(tmp_path)]) == 1
    named = re.findall(r"([\w.-]+) is out of date", capsys.readouterr().err)
    assert sorted(named) == ["board-estate.json", "rules.yaml"]


@pytest.mark.parametrize("tenant", ["", "a/b", 'a"b', "a{b}"])
def test_a_tenant_that_is_no_name_is_refused(tenant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tenant", tenant, "--to", str(tmp_path / "new")]) == 2
    assert "no name of a tenant" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_files_of_another_tenant_name_it_alone() -> None:
    texts = "".join(rendered(Installation(tenant="push.eu")).values())
    assert "push" in texts
    assert not re.search(r"fairlane/(shared|system|tasks|\.\+)", texts)
    for _, expression in expressions(rendered(Installation(tenant="push.eu"))):
        metrics_of(expression)


def test_each_expression_parses_and_names_what_is_served() -> None:
    recorded = {rule["record"] for rule in rules(FILES["rules.yaml"]) if "record" in rule}
    assert recorded
    for where, expression in expressions(FILES):
        of_rules = set(re.findall(r"\w+:\w+:\w+", expression))
        assert metrics_of(expression) or of_rules or "up{" in expression or "ALERTS{" in expression, where
        assert of_rules <= recorded, where


def test_metrics_of_fairlane_are_those_of_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    served = {
        f"{name}_bucket" if kind == "histogram" else name
        for name, kind in re.findall(r"^\| `(fairlane_\w+)` \| (\w+) \|", page, re.MULTILINE)
    }
    named = set[str]().union(*(metrics_of(expression) for _, expression in expressions(FILES)))
    assert {name for name in named if name.startswith("fairlane_")} <= served


@pytest.mark.parametrize("text", ["sum(", "rate(up)", "a and and b", '{job="x"}', ""])
def test_an_expression_that_is_none_is_found(text: str) -> None:
    with pytest.raises((ValueError, AssertionError)):
        metrics_of(text)


@pytest.mark.parametrize("name", BOARDS)
def test_panels_lie_beside_each_other(name: str) -> None:
    cells = Counter(
        (x, y)
        for place in (panel["gridPos"] for panel in json.loads(FILES[name])["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )
    assert cells.total() == len(cells)
    assert max(x for x, _ in cells) == 23
    ids = [panel["id"] for panel in json.loads(FILES[name])["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", BOARDS)
def test_each_panel_has_a_title_of_its_own_in_its_row_a_source_and_a_query(name: str) -> None:
    assert len(panels(name)) > 20
    for panel in panels(name):
        assert panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]
        letters = [target["refId"] for target in panel["targets"]]
        assert len(letters) == len(set(letters))


def test_the_boards_have_addresses_of_their_own() -> None:
    assert len({json.loads(FILES[name])["uid"] for name in BOARDS}) == len(BOARDS) == 2


# ---------------------------------------------------------------- alerts and runbooks
def test_alerts_have_names_of_their_own_and_the_documents_their_number() -> None:
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    for page in ("deploy/monitoring/README.md", "docs/estate.md"):
        assert f"{len(ALERTS)} alerts" in (ROOT / page).read_text(encoding="utf-8")


def test_each_alert_has_a_section_in_the_runbooks_and_each_section_an_alert() -> None:
    headings = re.findall(r"^## (.+)$", RUNBOOKS, re.MULTILINE)
    assert headings == [alert.title for alert in ALERTS]


def test_the_address_in_an_alert_leads_to_its_section() -> None:
    for rule in rules(FILES["rules.yaml"]):
        if "alert" in rule:
            page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
            assert (ROOT / page).exists()
            assert anchor in anchors(ROOT / page)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_section_says_what_it_means_how_to_look_and_what_to_do(alert: Alert) -> None:
    section = RUNBOOKS.partition(f"## {alert.title}\n")[2].partition("\n## ")[0]
    parts = [section.find(f"**{part}.**") for part in ("Meaning", "Look", "Do")]
    assert -1 not in parts
    assert parts == sorted(parts)
    look = section[parts[1] :]
    assert "`fairlane " in look, "Fairlane's own commands come first"
    for other in ("`curl ", "`bin/"):
        assert other not in look or look.index("`fairlane ") < look.index(other)


def test_limits_in_the_runbooks_are_those_of_the_rules() -> None:
    """Each duration and number that a rule has is in its section."""
    for alert in ALERTS:
        section = RUNBOOKS.partition(f"## {alert.title}\n")[2].partition("\n## ")[0]
        for level in alert.levels:
            assert _said(level.held) in section, (alert.name, level.held)


def _said(duration: str) -> str:
    number, unit = re.fullmatch(r"(\d+)([mh])", duration).groups()  # type: ignore[union-attr]
    return f"{number} {'min' if unit == 'm' else 'h'}"


def test_the_example_of_prometheus_has_the_jobs_that_rules_and_boards_name() -> None:
    example = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    jobs = {job["job_name"] for job in example["scrape_configs"]}
    named = {job for _, text in expressions(FILES) for job in re.findall(r'job=~?"([^"]+)"', text)}
    assert named
    assert all(any(re.fullmatch(pattern, job) for job in jobs) for pattern in named)
    assert example["rule_files"] == ["rules.yaml"]
