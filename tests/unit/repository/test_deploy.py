"""The settings and metrics that deploy/ names exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from web.cli.api import api

DEPLOY = Path(__file__).parents[3] / "deploy"
METRICS = DEPLOY.parent / "docs" / "reference" / "metrics.md"
FILES = sorted(file for folder in ("keda", "api") for file in (DEPLOY / folder).rglob("*.yaml"))
PODS = ("keda/workers.yaml", "api/api.yaml")
assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_document_is_an_object_of_kubernetes(file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        assert {"apiVersion", "kind", "metadata", "spec"} <= document.keys()


@pytest.mark.parametrize("file", [*FILES, *DEPLOY.rglob("*.md")], ids=lambda file: file.name)
def test_the_metrics_are_those_of_the_readme(file: Path) -> None:
    served = set(re.findall(r"`(fairlane_\w+)`", METRICS.read_text()))
    assert set(re.findall(r"\b(fairlane_\w+)", file.read_text())) <= served


def pod_of(name: str) -> Any:
    """Return the pod of a deployment."""
    [deployment, _] = yaml.safe_load_all((DEPLOY / name).read_text())
    return deployment["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", PODS)
def test_the_settings_of_pods_are_settings(name: str) -> None:
    from fairlane.settings import Settings

    [container] = pod_of(name)["containers"]
    groups = Settings.model_fields
    for variable in (setting["name"] for setting in container["env"]):
        group, _, name = variable.removeprefix("FAIRLANE_").lower().partition("_")
        kind = groups[group].annotation
        assert kind is not None
        assert name in {field.alias or own for own, field in kind.model_fields.items()}, variable


@pytest.mark.parametrize("name", PODS)
def test_pods_get_no_variables_of_services(name: str) -> None:
    assert pod_of(name)["enableServiceLinks"] is False


def test_commands_that_serve_the_api_are_commands() -> None:
    [container] = pod_of("api/api.yaml")["containers"]
    unit = (DEPLOY / "api" / "fairlane-api.service").read_text()
    [started] = re.findall(r"^ExecStart=\S+ -m (.+)$", unit, re.MULTILINE)
    for name, *arguments in (container["args"], started.split()):
        assert (name, arguments[0]) == ("fairlane", "api")
        api.make_context("api", arguments[1:])


def test_probes_of_the_api_name_a_host_that_it_answers_for() -> None:
    [container] = pod_of("api/api.yaml")["containers"]
    for probe in ("readinessProbe", "livenessProbe"):
        [header] = container[probe]["httpGet"]["httpHeaders"]
        assert header["value"] == container["args"][container["args"].index("--allow-host") + 1]
