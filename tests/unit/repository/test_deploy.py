"""The settings and metrics that deploy/ names exist."""

import re
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
METRICS = DEPLOY.parent / "docs" / "reference" / "metrics.md"
FILES = sorted((DEPLOY / "keda").rglob("*.yaml"))
assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_document_is_an_object_of_kubernetes(file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        assert {"apiVersion", "kind", "metadata", "spec"} <= document.keys()


@pytest.mark.parametrize("file", [*FILES, *DEPLOY.rglob("*.md")], ids=lambda file: file.name)
def test_the_metrics_are_those_of_the_readme(file: Path) -> None:
    served = set(re.findall(r"`(fairlane_\w+)`", METRICS.read_text()))
    assert set(re.findall(r"\b(fairlane_\w+)", file.read_text())) <= served


def test_the_settings_of_the_workers_are_settings() -> None:
    from fairlane.settings import Settings

    [deployment, _] = yaml.safe_load_all((DEPLOY / "keda" / "workers.yaml").read_text())
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    groups = Settings.model_fields
    for variable in (setting["name"] for setting in container["env"]):
        group, _, name = variable.removeprefix("FAIRLANE_").lower().partition("_")
        kind = groups[group].annotation
        assert kind is not None
        assert name in {field.alias or own for own, field in kind.model_fields.items()}, variable


def test_pods_get_no_variables_of_services() -> None:
    [deployment, _] = yaml.safe_load_all((DEPLOY / "keda" / "workers.yaml").read_text())
    assert deployment["spec"]["template"]["spec"]["enableServiceLinks"] is False
