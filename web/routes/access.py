"""Keys and the audit over HTTP."""

from typing import Annotated

from msgspec import Meta

from fairlane.figures.audit_rows import audit_fields
from fairlane.figures.rows import picked
from producers.control.access_control import KeyState
from web.routes.inputs import Input, Page
from web.routing import Answer, Call, Route, rows


class NewKey(Input):
    """A key to be made."""

    scopes: list[str]
    app: str | None = None
    """null: every app."""
    ends_in_s: Annotated[float, Meta(gt=0)] | None = None
    """Seconds until it ends; null: it does not."""


class OfApp(Input):
    app: str | None = None


class AuditPage(Page):
    app: str | None = None


def list_keys(call: Call) -> Answer:
    return rows(call.desks.service.client("keys.list").access.keys(call.query.app), KeyState._asdict)


def create_key(call: Call) -> Answer:
    access = call.desks.service.client("keys.create").access
    new = access.create(call.body.app, call.body.scopes, call.body.ends_in_s)
    made = picked(new.key, ("app", "scopes", "ends_ms"))
    return Answer({"key": new.token, "id": new.id, **made, "scopes": sorted(new.key.scopes)}, 201)


def revoke_key(call: Call) -> Answer:
    revoked = call.desks.service.client("keys.revoke").access.revoke(call.path["id"])
    return Answer({"id": call.path["id"], "revoked_ms": revoked.revoked_ms})


def list_audit(call: Call) -> Answer:
    asked: AuditPage = call.query
    entries = call.desks.service.client("audit.list").audit(asked.limit + 1, asked.app)
    return rows(entries, audit_fields, asked.limit)


ROUTES = (
    Route(method="GET", path="/v1/keys", action="keys.list", handle=list_keys, query=OfApp),
    Route(method="POST", path="/v1/keys", action="keys.create", handle=create_key, body=NewKey, status=201),
    Route(method="DELETE", path="/v1/keys/{id}", action="keys.revoke", handle=revoke_key),
    Route(method="GET", path="/v1/audit", action="audit.list", handle=list_audit, query=AuditPage),
)
