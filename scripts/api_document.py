"""The OpenAPI document of the API, made of the routes, the table of actions, and the types of inputs and answers."""

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, get_origin, get_type_hints

import msgspec
from aiohttp.web_routedef import RouteDef

from dispatcher.access.actions import ACTIONS
from dispatcher.access.app_policy import AppPolicy
from dispatcher.model.task import PushTask
from fairlane import __version__
from scripts.api_answers import ANSWERS, Problem
from web import health, problems
from web.encoding import CSV, JSON, NDJSON
from web.problems import CONTENT_TYPE, KINDS, Kind, of_status
from web.routes import ROUTES
from web.routes.service import PolicyChanges
from web.routes.tasks import TaskIn
from web.routing import Route, Stream

OF_HTTP = (405, 408, 413, 415, 421)
"""Statuses of problems that no error of Fairlane has."""
EVERY = (400, 401, 403, 404, 409, 421, 422, 429, 500, 503)
"""Statuses of the problems that any route may answer."""
WITH_BODY = (408, 413, 415)
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Names the submission where the task has no id: the same key again verifies or continues it.",
    "schema": {"type": "string", "maxLength": 255},
}
_REF = "#/components/schemas/{name}"
LIKE: dict[type, type] = {TaskIn: PushTask, PolicyChanges: AppPolicy}
"""Classes whose docstrings hold for the fields of an input, too."""
Schemas = dict[Any, dict[str, Any]]
"""Schemas by type."""


def kinds() -> list[Kind]:
    """Return every kind of problem, by status."""
    named = (value for value in vars(problems).values() if isinstance(value, Kind))
    known = {*KINDS.values(), *named, *map(of_status, OF_HTTP)}
    return sorted(known, key=lambda kind: (kind.status, kind.name))


def document(routes: Iterable[Route] = ROUTES) -> dict[str, Any]:
    """Return the document. Raises LookupError for a route whose action is unknown, or has no type of its answer."""
    routes = tuple(routes)
    types = list({kind: None for route in routes for kind in (*_answers(route), route.body, route.query) if kind})
    found, components = msgspec.json.schema_components([Problem, *types], ref_template=_REF)
    _describe([Problem, *types], components)
    schemas: Schemas = dict(zip(types, found[1:], strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        query = components.pop(_name(schemas[route.query]), {}) if route.query else {}
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas, query)
    for opened in health.ROUTES:
        paths[opened.path] = {opened.method.lower(): _open_operation(opened)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fairlane", "version": __version__, "description": "Mass push notifications by priority."},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "responses": {str(kind.status): _problems(kind.status) for kind in kinds()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "flk_ID_SECRET"}},
        },
    }


# ------------------------------------------------------------- operations
def _answers(route: Route) -> tuple[Any, ...]:
    answer = ANSWERS[route.action]
    return answer if isinstance(answer, tuple) else (answer,)


def _answer(route: Route, schemas: Schemas) -> dict[str, Any]:
    kinds = _answers(route)
    answers = [schemas[kind] for kind in kinds]
    schema = answers[0] if len(answers) == 1 else {"anyOf": answers}
    if get_type_hints(route.handle)["return"] is Stream:
        return {"content": {"text/event-stream": {"schema": schema}}}
    is_list = "rows" in (get_origin(kinds[0]) or kinds[0]).__struct_fields__
    return _json(schema, *((CSV, NDJSON) if is_list else ()))


def _operation(route: Route, schemas: Schemas, query: Mapping[str, Any]) -> dict[str, Any]:
    answer = _answer(route, schemas)
    done = {str(route.status): {"description": "Done.", **answer}}
    if route.is_idempotent:
        done["200"] = {"description": "It was complete before; with `Idempotent-Replayed: true`.", **answer}
    others = (NDJSON,) if route.upload else ()
    body = {"requestBody": {"required": True, **_json(schemas[route.body], *others)}} if route.body else {}
    return {
        "operationId": route.name or route.action,
        "tags": [route.action.partition(".")[0]],
        "summary": ACTIONS[route.action].text,
        "security": [{"key": [str(ACTIONS[route.action].scope)]}],
        "parameters": list(_parameters(route, query)),
        **body,
        "responses": {**done, **_refused(*sorted(EVERY + (WITH_BODY if route.body else ())))},
    }


def _parameters(route: Route, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    for name, schema in query.get("properties", {}).items():
        known = {**schema, **schema.get("anyOf", [{}])[0]}  # of `TYPE | None`, the type
        kept = {key: known[key] for key in known.keys() - {"anyOf", "description"} if known[key] is not None}
        place = {"name": name, "in": "query", "required": name in query["required"]}
        yield {**place, "description": schema.get("description", ""), "schema": dict(sorted(kept.items()))}
    if route.is_idempotent:
        yield IDEMPOTENCY_KEY


def _open_operation(route: RouteDef) -> dict[str, Any]:
    return {
        "operationId": route.handler.__name__,
        "tags": ["server"],
        "summary": inspect.getdoc(route.handler),
        "security": [],
        "responses": {"200": {"description": "Yes.", **_json({"type": "object"})}, **_refused(503)},
    }


def _refused(*statuses: int) -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _problems(status: int) -> dict[str, Any]:
    text = "; ".join(f"`{kind.name}`: {kind.title}" for kind in kinds() if kind.status == status)
    found = {"description": f"{text}.", "content": {CONTENT_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}}}
    again = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return found | ({"headers": again} if status in (429, 503) else {})


def _json(schema: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """Return the content of a body in JSON. others: types in which it may be, too."""
    return {"content": {JSON: {"schema": schema}, **{kind: {"schema": {"type": "string"}} for kind in others}}}


def _name(reference: Mapping[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


# ------------------------------------------------------------- descriptions
def _describe(types: Iterable[Any], components: Mapping[str, dict[str, Any]]) -> None:
    """Give the components the docstrings of their classes and fields."""
    classes = {cls.__name__: cls for cls in _classes(msgspec.inspect.multi_type_info(types))}
    for component in components.values():
        if "description" in component:
            component["description"] = inspect.cleandoc(component["description"])
        texts = _field_texts(classes[component["title"].partition("[")[0]])
        for name in component.get("properties", {}).keys() & texts.keys():
            component["properties"][name]["description"] = texts[name]


def _classes(info: Any) -> Iterator[type]:
    """Yield the classes in msgspec's description of types."""
    if isinstance(info, tuple | list):
        for each in info:
            yield from _classes(each)
    elif isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field):
        if cls := getattr(info, "cls", None):
            yield get_origin(cls) or cls
        yield from _classes([getattr(info, name) for name in info.__struct_fields__])


def _field_texts(cls: type) -> dict[str, str]:
    """Return the docstrings under the fields of a class, of its bases, and of the class that it is like."""
    texts: dict[str, str] = {}
    like: type = next((like for own, like in LIKE.items() if issubclass(cls, own)), getattr(cls, "like", object))
    for base in (*reversed(like.__mro__), *reversed(cls.__mro__)):
        for field, text in pairwise(_bodies(base.__module__).get(base.__name__, ())):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                texts[field.target.id] = inspect.cleandoc(ast.literal_eval(text.value))
    return texts


@cache
def _bodies(module: str) -> dict[str, list[ast.stmt]]:
    """Return the statements of each class of a module; none of one whose source is not here."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}
