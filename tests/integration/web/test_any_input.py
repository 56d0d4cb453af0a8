"""Whatever a client sends, made from the OpenAPI document or beside it, the answer is one that the document has.

`FAIRLANE_TEST_LAWS=200` sends 20,000 requests.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlane.settings import Settings
from producers.client import PushClient
from scripts.api_document import document
from tests.integration.web.calls import Api, serving
from tests.integration.worker_crew import Crew

API = document()
CALLS = [
    (method.upper(), path, call)
    for path, calls in API["paths"].items()
    for method, call in calls.items()
    if not path.endswith("/events")  # these answers have no end
]
WORDS = (
    "", "high", "low", "log", "fcm", "shop", "held", "first", "~held", "shop--held", "none", "100:5", "running", "keep",
    "2026-01-31T08:00:00Z", "1h", "open", "submit", "read", "*", "null", "0", "-1", "<script>", "\u202e", "\x00", "🎉",
)  # fmt: skip
texts = st.sampled_from(WORDS) | st.text(max_size=20)
numbers = st.integers(-(2**70), 2**70) | st.integers(-2, 100) | st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


class Request(NamedTuple):
    method: str
    path: str
    body: Any
    headers: dict[str, str]
    call: dict[str, Any]
    as_operator: bool


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of a schema."""
    if "$ref" in schema:
        return values(API["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return st.one_of(*map(values, schema["anyOf"]))
    if schema.get("type") == "array":
        return st.lists(values(schema["items"]), max_size=3)
    if "properties" in schema:
        fields = {name: nearly(each) for name, each in schema["properties"].items()}
        required = {name: fields.pop(name) for name in schema["required"]}
        return st.fixed_dictionaries(required, optional=fields)
    kinds = {"string": texts, "integer": st.integers(-5, 20) | numbers, "number": numbers, "boolean": st.booleans()}
    return kinds.get(schema.get("type", ""), anything)


def nearly(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of a schema, most of the time."""
    return st.one_of(*[values(schema)] * 9, anything)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    method, path, call = draw(st.sampled_from(CALLS))
    given_headers, query = {}, []
    for each in call.get("parameters", ()):
        text = str(draw(nearly(each["schema"])))
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", quote(text or "held", safe=""))
        elif draw(st.booleans()):
            if each["in"] == "query":
                query.append((each["name"], text if each["name"] != "wait_s" else "0"))
            else:
                given_headers[each["name"]] = quote(text)
    body = None
    if "requestBody" in call:
        [content] = (kind for media, kind in call["requestBody"]["content"].items() if media == "application/json")
        body = draw(nearly(content["schema"]))
    address = f"{path}?{urlencode(query)}" if query else path
    return Request(method, address, body, given_headers, call, draw(st.booleans()))


@pytest.fixture(scope="module")
def keys(module_settings: Settings, members: Crew, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Api]]:
    """One of an app, and one of an operator."""
    with (
        serving(module_settings, tmp_path_factory.mktemp("api")) as api,
        PushClient.connect(module_settings) as client,
    ):
        client.access.set_policy("shop", {"channels": ["log"], "requests_s": 10_000})
        tokens = [client.access.create("shop", ["submit", "read", "control"]), client.access.create(None, ["operator"])]
        shop, operator = (api.with_key(new.token) for new in tokens)
        task = {"id": "held", "channel": "log", "message": "hi", "targets": ["a"], "hold_until_sealed": True}
        assert shop("POST", "/v1/tasks", task | {"cap": 1}).status == 201
        yield [shop, operator]


@settings(suppress_health_check=list(HealthCheck))
@given(request=requests())
def test_any_input_gets_an_answer_of_the_document(keys: list[Api], request: Request) -> None:
    reply = keys[request.as_operator](request.method, request.path, request.body, request.headers)
    assert reply.status < 500, reply.document
    assert str(reply.status) in request.call["responses"], (reply.status, reply.body[:500])
    kind = "application/json" if reply.status < 300 else "application/problem+json"
    assert reply.headers["Content-Type"].partition(";")[0] == kind
