"""Make the pages of the HTTP API: its routes with their inputs and answers, its problems, and the OpenAPI document."""

import json
import re
from typing import Any

from dispatcher.access.principal import Scope
from scripts.api_document import document, kinds
from scripts.tables import table

_HTTP = """How to use it, with `curl` from the first key to the audit: [HTTP API](../how-to/http.md). The same for \
programs: [openapi.json](../../web/openapi.json), which the server has at `/openapi.json`. Errors: \
[problems](problems.md).

Every request has the header `Authorization: Bearer flk_…`. A key has scopes, and belongs to one app or to all. \
Every answer has the header `X-Request-Id`, which the audit and the server's log name. Times are wall times in ms, \
durations seconds, caps targets a second."""
_SCOPES = {
    Scope.SUBMIT: "submit tasks, and preview them",
    Scope.READ: "read tasks and their outcomes",
    Scope.CONTROL: "change and cancel tasks, send dead letters again",
    Scope.OPERATOR: "all of these for every app, and settings, keys, policies and the audit",
}
_OTHERS = {"CSV": "text/csv", "NDJSON": "application/x-ndjson"}
_UPLOAD = """The body may also be `application/x-ndjson`, of any length: an object with these fields in the first \
line, without `targets`, then a target in each."""
_OPEN = """Without a key: `/livez` (the process answers), `/readyz` (requests can be served; else 503), `/version`, \
`/openapi.json`."""
_PROBLEMS = """Every error is a problem of RFC 9457, `application/problem+json`: `type` (an address on this page; \
compare it as text, since the server does not serve the page), `title`, `status`, `detail` (the cause), `next_step`, \
`errors` (each field at fault, with a JSON pointer into the body) and `request_id`. An answer with `Retry-After` may \
be tried again, without any change, after that many seconds."""
_STEPS = {
    "unreadable": (
        "The body is not JSON, or is nested too deeply.",
        "Correct the body; `detail` says where it stops being JSON.",
    ),
    "no-key": (
        "The key is missing or unknown, has ended, or was revoked.",
        "Send `Authorization: Bearer flk_…`. `fairlane key list` shows the state of each key.",
    ),
    "forbidden": (
        "The route needs a scope that the key does not have.",
        "Use a key with the scope that `detail` names: `fairlane key create`.",
    ),
    "not-found": (
        "There is no such route, task, key, channel or app, or it belongs to another app.",
        "Check the id. A task is known for 16 days after its end. Tasks of the app that no key submitted are `~ID`.",
    ),
    "method-not-allowed": (
        "The path has no such method.",
        "The header `Allow` names those that it has.",
    ),
    "request-timeout": (
        "The body did not come in time.",
        "Send it again; send large audiences as NDJSON.",
    ),
    "audience-mismatch": (
        "The task id was submitted before, with another task or another audience.",
        "Choose another id, or send the first task and audience to verify it.",
    ),
    "being-submitted": (
        "Another submission of the same task is under way, or has taken this one over.",
        "Send the same again after `Retry-After`: it then continues or verifies.",
    ),
    "refused": (
        "A conflict, or a state that does not allow the request.",
        "`detail` names it.",
    ),
    "task-ended": (
        "It completed, expired, failed or was cancelled, and takes neither targets nor changes.",
        "Submit a new task.",
    ),
    "request-entity-too-large": (
        "The body is larger than the route takes.",
        "Send less at once, or targets as NDJSON.",
    ),
    "unsupported-media-type": (
        "The body has a coding or type that the route does not take.",
        "Send JSON without `Content-Encoding`.",
    ),
    "misdirected-request": (
        "The header `Host` names a host for which the server does not answer.",
        "An operator starts the server with `--allow-host NAME`.",
    ),
    "invalid-input": (
        "`errors` names the fields.",
        "Correct them. Where the bound is the app's policy, an operator may change it: `fairlane app policy`.",
    ),
    "limit-reached": (
        "The app is at its limit of live tasks, queued targets or requests a second. Nothing was done.",
        "Send the same again after `Retry-After`, more slowly.",
    ),
    "internal": (
        "The answer shows nothing of the inside.",
        "Report the `request_id`: the log has the cause under it.",
    ),
    "busy": (
        "The server has too many large bodies, uploads or event streams at once. Nothing was done.",
        "Send the same again after `Retry-After`, or to another server.",
    ),
    "not-ready": (
        "The view in Redis is being rebuilt, or keys and policies are not known. Nothing was done.",
        "Send the same again after `Retry-After`. An operator sees the reason in `fairlane registry status`.",
    ),
    "timed-out": (
        "What was asked for may still happen.",
        "Read the state, then send the same again.",
    ),
    "unreachable": (
        "Pulsar or Redis does not answer.",
        "Send the same again after `Retry-After`. An operator sees the reason in `fairlane doctor`.",
    ),
}
"""Meaning and next step of each problem."""


def openapi() -> str:
    """Return the OpenAPI document as a file."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def http(made: str) -> str:
    """Return the page of all routes, with their inputs, and of what they answer."""
    api = document()
    calls = [
        (f"{method.upper()} {path}", call) for path, calls in api["paths"].items() for method, call in calls.items()
    ]
    keyed = [(name, call) for name, call in calls if call["security"]]
    schemas = api["components"]["schemas"]
    bodies = {_body(call) for _, call in keyed}
    scopes = table(["scope", "what it allows"], [[f"`{scope}`", text] for scope, text in _SCOPES.items()])
    routes = table(["route", "scope", "what it does"], [_route(name, call) for name, call in keyed])
    inputs = [f"### {name}\n\n{_call(call, schemas)}" for name, call in keyed]
    objects = [f"### {_shown(name)}\n\n{_object(schemas[name])}" for name in schemas if name not in bodies]
    parts = [_HTTP, scopes, "## Routes", routes, _OPEN, "## Inputs and answers", *inputs, "## Objects", *objects]
    return "\n\n".join(["# HTTP API", made, *parts]) + "\n"


def _route(name: str, call: dict[str, Any]) -> list[str]:
    [key] = call["security"]
    return [f"[`{name}`](#{anchor(name)})", f"`{key['key'][0]}`", call["summary"]]


def _call(call: dict[str, Any], schemas: dict[str, Any]) -> str:
    given = [
        [f"`{each['name']}`", each["in"], _type(each["schema"]), _meaning(each, required=each.get("required", False))]
        for each in call["parameters"]
    ]
    if body := _body(call):
        required = schemas[body]["required"]
        given += [
            [f"`{name}`", "body", _type(schema), _meaning(schema, required=name in required)]
            for name, schema in schemas[body]["properties"].items()
        ]
    done = next(call["responses"][status] for status in ("201", "200") if status in call["responses"])
    parts = [call["summary"], *([table(["input", "in", "type", "meaning"], given)] if given else [])]
    if "application/x-ndjson" in call.get("requestBody", {}).get("content", {}):
        parts.append(_UPLOAD)
    kind, content = next(iter(done["content"].items()))
    if kind == "text/event-stream":
        return "\n\n".join([*parts, f"Answer: `{kind}`; the data of an event is {_type(content['schema'])}."])
    other = "".join(f", or {name} by `Accept: {media}`" for name, media in _OTHERS.items() if media in done["content"])
    return "\n\n".join([*parts, f"Answer: {_type(content['schema'])}{other}."])


def _body(call: dict[str, Any]) -> str:
    body = call.get("requestBody")
    return body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2] if body else ""


def _object(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    rows = [[f"`{name}`", _type(one), _meaning(one)] for name, one in schema["properties"].items()]
    text = schema.get("description", "").split("\n\n")[0].replace("\n", " ")
    return "\n\n".join(filter(None, [text, table(["field", "type", "meaning"], rows)]))


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = _shown(schema["$ref"].rpartition("/")[2])
        return f"[{name}](#{anchor(name)})"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _meaning(schema: dict[str, Any], *, required: bool = False) -> str:
    inner = schema.get("schema", schema)
    bounds = {"minimum": "at least", "maximum": "at most", "maxLength": "characters: at most", "maxItems": "at most"}
    limits = [f"{words} {inner[key]:,g}" for key, words in bounds.items() if inner.get(key)]
    default = inner.get("default")
    known = [f"default `{json.dumps(default)}`"] if default not in (None, "", [], {}, False) else []
    facts = ", ".join([*(["required"] if required else []), *limits, *known])
    return " ".join(filter(None, [schema.get("description", ""), facts and f"({facts})"]))


def _shown(name: str) -> str:
    """Return the name of a schema as text: `Rows_Key_` is a list of `Key`."""
    return name.replace("Rows_", "Rows of ").strip("_")


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def problems(made: str) -> str:
    """Return the page of all problems."""
    sections = []
    for kind in kinds():
        meaning, step = _STEPS[kind.name]
        sections.append(f"## {kind.name}\n\n{kind.status}: {kind.title}. {meaning}\n\nNext step: {step}")
    return "\n\n".join(["# Problems", made, _PROBLEMS, *sections]) + "\n"
