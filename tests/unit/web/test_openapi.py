"""The OpenAPI document names every route, is what is checked in, and breaks no client."""

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dispatcher.access.actions import ACTIONS
from scripts.api_changes import breaking
from scripts.api_document import document, kinds
from tests.unit.web.stub_server import served
from web.health import ROUTES as OPEN_ROUTES
from web.problems import ProblemError
from web.routes import ROUTES
from web.routing import checked

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"
API: dict[str, Any] = json.loads(json.dumps(document()))
CHECKED_IN = json.loads((ROOT / "web" / "openapi.json").read_text(encoding="utf-8"))
CALLS = {(path, method): call for path, calls in API["paths"].items() for method, call in calls.items()}
SCHEMAS = API["components"]["schemas"]


def test_nothing_is_removed_and_nothing_is_newly_required() -> None:
    assert not list(breaking(CHECKED_IN, API))


def test_checked_in_document_is_up_to_date() -> None:
    assert CHECKED_IN == API, "run `python scripts/reference.py`"


async def test_server_sends_the_checked_in_document_without_a_key() -> None:
    async with served() as server:
        reply = await server.ask("GET /openapi.json", headers="Host: localhost\r\n")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.document == CHECKED_IN


def test_document_is_valid() -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.OpenAPIV31SpecValidator(API).validate()


def test_every_route_is_in_the_document_with_its_scope() -> None:
    keyed = {(route.path, route.method.lower()): str(ACTIONS[route.action].scope) for route in ROUTES}
    assert {place: call["security"][0]["key"][0] for place, call in CALLS.items() if call["security"]} == keyed
    opened = {(route.path, route.method.lower()) for route in OPEN_ROUTES}
    assert opened == {place for place, call in CALLS.items() if not call["security"]}


def test_routes_without_an_action_and_actions_without_a_route_are_refused() -> None:
    for odd, named in ((ROUTES[1:], ROUTES[0].action), ((*ROUTES, replace(ROUTES[0], action="tasks.steal")), "steal")):
        with pytest.raises(LookupError, match=named):
            checked(odd)


def test_names_of_calls_and_schemas_are_short_and_used_once() -> None:
    names = [call["operationId"] for call in CALLS.values()]
    assert len(set(names)) == len(names)
    assert not [name for name in SCHEMAS if "." in name]  # msgspec puts the module before a name that two types have


def test_every_placeholder_is_a_parameter() -> None:
    for (path, _), call in CALLS.items():
        placed = {each["name"] for each in call.get("parameters", ()) if each["in"] == "path"}
        assert placed == set(re.findall(r"{(\w+)}", path))


def test_fields_are_described_by_the_docstrings_under_them() -> None:
    assert SCHEMAS["TaskView"]["properties"]["lane"]["description"] == "The topic that holds its envelopes."
    assert SCHEMAS["NewTask"]["properties"]["cap"]["description"].startswith("Maximum targets/s of this task")
    assert "description" in SCHEMAS["Failure"]["properties"]["attempt"]


def test_type_of_every_problem_is_a_heading_of_the_reference() -> None:
    headings = set(re.findall(r"^## (.+)$", (REFERENCE / "problems.md").read_text("utf-8"), re.MULTILINE))
    for kind in kinds():
        page, _, anchor = ProblemError(kind, "").document("r1")["type"].partition("#")
        assert page == "/docs/reference/problems.md"
        assert anchor in headings


def changed(place: str, value: object = None) -> Callable[[dict[str, Any]], None]:
    """Return a change of the document: the value at a place (names with `|` between them), or its removal."""

    def change(api: Any) -> None:
        *above, last = place.split("|")
        for name in above:
            api = api[int(name) if isinstance(api, list) else name]
        if value is None:
            del api[int(last) if isinstance(api, list) else last]
        else:
            api[last] = value

    return change


NEW_TASK = "components|schemas|NewTask"
LIST = "paths|/v1/tasks|get"
PARAMETER = {"name": "more", "in": "query", "schema": {"type": "string"}}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (changed("paths|/v1/tasks/{id}/why"), "/paths//v1/tasks/{id}/why is removed"),
        (changed("paths|/v1/tasks/{id}|patch"), "/paths//v1/tasks/{id}/patch is removed"),
        (changed(f"{LIST}|parameters|0"), "/paths//v1/tasks/get/parameters/state is removed"),
        (changed(f"{LIST}|responses|429"), "/paths//v1/tasks/get/responses/429 is removed"),
        (changed(f"{LIST}|security", [{"key": ["operator"]}]), "is removed"),
        (changed(f"{LIST}|parameters", [PARAMETER | {"required": True}]), "parameters/more is newly required"),
        (changed("paths|/v1/tasks/{id}/cancel|post|requestBody", {"required": True}), "requestBody is newly required"),
        (changed(f"{NEW_TASK}|properties|unknown"), "NewTask/properties/unknown is removed"),
        (changed(f"{NEW_TASK}|required", ["channel", "message", "tier"]), "NewTask/tier is newly required"),
        (changed(f"{NEW_TASK}|properties|cap|type", "string"), "cap/type was integer and is string"),
        (changed("components|schemas|Why|properties|now"), "Why/properties/now is removed"),
        (changed("components|schemas|Why|required", ["state"]), "Why/now may be missing"),
        (changed("components|schemas|Problem|properties|title"), "Problem/properties/title is removed"),
    ],
)
def test_rule_names_a_change_that_breaks_clients(change: Callable[[dict[str, Any]], None], found: str) -> None:
    after = copy.deepcopy(API)
    change(after)
    assert found in "\n".join(breaking(API, after))


@pytest.mark.parametrize(
    "change",
    [
        changed("paths|/v1/more", {"get": {}}),
        changed(f"{NEW_TASK}|properties|more", {"type": "string"}),
        changed(f"{NEW_TASK}|required", ["channel"]),
        changed(f"{NEW_TASK}|properties|targets|maxItems", 20_000),
        changed(f"{NEW_TASK}|description", "In other words."),
        changed("components|schemas|Why|properties|more", {"type": "string"}),
        changed("components|schemas|Why|required", [*SCHEMAS["Why"]["required"], "more"]),
        lambda api: api["paths"]["/v1/tasks"]["get"]["parameters"].append(PARAMETER),
        lambda api: api["paths"]["/v1/tasks"]["get"]["parameters"].reverse(),
    ],
)
def test_rule_lets_the_document_grow(change: Callable[[dict[str, Any]], None]) -> None:
    after = copy.deepcopy(API)
    change(after)
    assert after != API
    assert not list(breaking(API, after))
