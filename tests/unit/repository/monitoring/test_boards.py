"""Boards, rules and runbooks belong together, and agree with the settings and the metrics of the code."""

import json
import re
from collections import Counter
from typing import Any

import pytest
import yaml

from backends.settings import EstateSettings
from dispatcher.analysis.verdict import Runbook
from dispatcher.model.tier import TIERS
from estate.rules.node_life import NODE_LIFE
from tests.monitoring import FOLDER, ROOT, alerts, expressions, metrics_of, rules, texts
from tests.unit.repository.test_documents import anchors

FILES = texts()
BOARDS = [name for name in FILES if name.endswith(".json")]
ALERTS = alerts()
NAMES = list(dict.fromkeys(rule["alert"] for rule in ALERTS))
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
METRICS = re.findall(
    r"^\| `(fairlane_\w+)` \| (\w+) \| ([^|]*) \|",
    (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
"""Name, type and labels of each metric of the reference."""
OF_THE_CONSOLE = {"FailingProvider", "IncompleteSubmission", "AppAtItsLimit"}
"""The section of which there is no alert."""
LIMITS = {
    "1 Through each broker": ["SlowProbe"],
    "3 Stored by the bookie": ["SlowBookie"],
    "Probes, p99": ["SlowProbe"],
    "Writes as brokers see them, p99": ["SlowBookie", "SlowMetadata"],
    "Sync of the journal, p99": ["SlowJournal"],
    "Writes in progress": ["GrowingWriteQueue"],
    "Use": ["DiskFullInADay"],
    "Hits of the brokers' cache": ["ColdCache"],
}
"""Alerts whose limit a panel shows, by the panel's title."""


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in json.loads(FILES[name])["panels"] if panel["type"] != "row"]


def conditions(alert: str) -> str:
    return "; ".join(rule["expr"] for rule in ALERTS if rule["alert"] == alert)


def served() -> dict[str, set[str]]:
    """Labels of each series by its name."""
    return {
        f"{name}_bucket" if kind == "histogram" else name: set(labels.split(", ")) for name, kind, labels in METRICS
    }


# ---------------------------------------------------------------- installations
def test_limits_of_slow_nodes_are_the_defaults_of_the_settings() -> None:
    usual = EstateSettings()
    assert f"> {usual.slow_ms:g} and" in conditions("SlowBookie")
    assert f"> {usual.slow_ratio:g} * " in conditions("SlowBookie")
    assert f"> {usual.slow_ms / 1000:g} or" in conditions("SlowProbe")


@pytest.mark.parametrize("title", LIMITS)
def test_the_line_of_a_limit_is_that_of_its_alert(title: str) -> None:
    found = [panel for name in BOARDS for panel in panels(name) if panel["title"] == title]
    limits = [panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"] for panel in found]
    assert len(limits) == len(LIMITS[title])
    for limit, alert in zip(limits, LIMITS[title], strict=True):
        assert re.search(rf"[<>] {limit:g}( |$|;)", conditions(alert)), (limit, alert)


def test_the_rules_of_another_tenant_name_it_alone() -> None:
    text = texts("push.eu")["rules.yaml"]
    assert "push.eu/" in text
    assert not re.search(r"fairlane/(shared|system|tasks|\.\+)", text)
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert """s#"fairlane/#"push/#g""" in readme, "the change that these tests make"


# ---------------------------------------------------------------- boards
def test_figures_of_the_service_are_those_of_the_chosen_tiers_workers_and_apps() -> None:
    asked = " ".join(target["expr"] for panel in panels("board-service.json") for target in panel["targets"])
    for name, matchers in re.findall(r"(fairlane_(?!estate_)\w+)(?:{([^}]*)})?", asked):
        labels = {"instance", *served()[name]}
        of_flows = {"channel": "channel", "app": "app"} if "app" in labels else {}
        choices = {"instance": "worker", "tier": "tier", **of_flows}
        chosen = dict(re.findall(r'(\w+)=~"\$(\w+)"', matchers))
        assert chosen == {label: variable for label, variable in choices.items() if label in labels}, name


@pytest.mark.parametrize("name", BOARDS)
def test_variables_are_defined_before_they_are_used_and_ask_for_what_is_served(name: str) -> None:
    known = {"datasource"}
    for variable in json.loads(FILES[name])["templating"]["list"]:
        if variable["type"] == "query":
            text = variable["query"]["query"]
            asked = re.fullmatch(r"label_values\((.+), (\w+)\)", text)
            assert asked is not None
            assert metrics_of(asked[1]) <= {*served(), "fairlane_build_info"}
            assert set(re.findall(r"\$(\w+)", text)) <= known
        known.add(variable["name"])
    used = {
        one for panel in panels(name) for target in panel["targets"] for one in re.findall(r"\$(\w+)", target["expr"])
    }
    assert used <= known


def test_the_tiers_to_choose_are_all() -> None:
    variables = {one["name"]: one for one in json.loads(FILES["board-service.json"])["templating"]["list"]}
    assert variables["tier"]["query"].split(",") == [str(tier) for tier in TIERS]


def test_the_states_of_nodes_are_those_of_their_life() -> None:
    [panel] = [panel for panel in panels("board-estate.json") if panel["title"] == "States"]
    [mapping] = panel["fieldConfig"]["defaults"]["mappings"]
    coded = dict(re.findall(r'state="(\w+)"} \* (\d)', panel["targets"][0]["expr"]))
    assert coded == {state["text"]: number for number, state in mapping["options"].items()}
    assert coded.keys() == set(NODE_LIFE.states)


def test_each_expression_parses_and_names_what_is_served() -> None:
    recorded = {rule["record"] for rule in rules(FILES["rules.yaml"]) if "record" in rule}
    assert recorded
    for where, expression in expressions(FILES):
        of_rules = set(re.findall(r"\w+:\w+:\w+", expression))
        assert metrics_of(expression) or of_rules or "up{" in expression or "ALERTS{" in expression, where
        assert of_rules <= recorded, where


def test_metrics_of_fairlane_are_those_of_the_reference() -> None:
    named = set[str]().union(*(metrics_of(expression) for _, expression in expressions(FILES)))
    assert {name for name in named if name.startswith("fairlane_")} <= served().keys()


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
def name_of(heading: str) -> str:
    """Return the name of the alert whose section it is: Slow bookie is SlowBookie."""
    return "".join(word[0].upper() + word[1:] for word in heading.replace("-", " ").split())


SECTIONS = {
    name_of(heading): text
    for heading, text in re.findall(r"^## (.+?)\n(.+?)(?=^## |\Z)", RUNBOOKS, re.MULTILINE | re.DOTALL)
}


def test_the_documents_have_the_number_of_the_alerts() -> None:
    for page in ("deploy/monitoring/README.md", "docs/estate.md"):
        assert f"{len(NAMES)} alerts" in (ROOT / page).read_text(encoding="utf-8")


def test_each_alert_has_a_section_in_the_runbooks_and_each_section_an_alert() -> None:
    assert [name for name in SECTIONS if name not in OF_THE_CONSOLE] == NAMES


@pytest.mark.parametrize("runbook", Runbook)
def test_each_concern_of_the_console_has_a_section_that_it_serves(runbook: Runbook) -> None:
    assert runbook in anchors(ROOT / "docs" / "runbooks.md")
    assert f'<h2 id="{runbook}">' in (ROOT / "web" / "console" / "templates" / "runbooks.html").read_text("utf-8")


def test_the_address_in_an_alert_leads_to_its_section() -> None:
    for rule in ALERTS:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert anchor in anchors(ROOT / page)
        assert name_of(anchor.replace("-", " ")).lower() == rule["alert"].lower()


@pytest.mark.parametrize("alert", SECTIONS)
def test_a_section_says_what_it_means_how_to_look_and_what_to_do(alert: str) -> None:
    section = SECTIONS[alert]
    parts = [section.find(f"**{part}.**") for part in ("Meaning", "Look", "Do")]
    assert -1 not in parts
    assert parts == sorted(parts)
    look = section[parts[1] :]
    assert "`fairlane " in look, "Fairlane's own commands come first"
    for other in ("`curl ", "`bin/"):
        assert other not in look or look.index("`fairlane ") < look.index(other)


def test_durations_of_the_rules_are_in_their_sections() -> None:
    for rule in ALERTS:
        assert _said(rule["for"]) in SECTIONS[rule["alert"]], (rule["alert"], rule["for"])


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
