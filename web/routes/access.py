"""Keys and the audit over HTTP."""

from typing import Annotated

from msgspec import Meta

from fairlane.figures.audit_rows import audit_fields
from fairlane.figures.rows import key_fields
from web.routes.inputs import Input, Page, first
from web.routing import Answer, Call, Route


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
    keys = call.desks.service.client("keys.list").access.keys(call.query.app)
    return Answer({"rows": [key_fields(state) for state in keys], "more": False})


def create_key(call: Call) -> Answer:
    access = call.desks.service.client("keys.create").access
    new = access.create(call.body.app, call.body.scopes, call.body.ends_in_s)
    document = {"key": new.token, "id": new.id, "app": new.key.app, "scopes": sorted(new.key.scopes)}
    return Answer({**document, "ends_ms": new.key.ends_ms}, 201)


def revoke_key(call: Call) -> Answer:
    revoked = call.desks.service.client("keys.revoke").access.revoke(call.path["id"])
    return Answer({"id": call.path["id"], "revoked_ms": revoked.revoked_ms})


def list_audit(call: Call) -> Answer:
    entries = call.desks.service.client("audit.list").audit(call.query.limit + 1, call.query.app)
    found, more = first(entries, call.query.limit)
    return Answer({"rows": [audit_fields(entry) for entry in found], "more": more})


ROUTES = (
    Route(method="GET", path="/v1/keys", action="keys.list", handle=list_keys, query=OfApp),
    Route(method="POST", path="/v1/keys", action="keys.create", handle=create_key, body=NewKey, status=201),
    Route(method="DELETE", path="/v1/keys/{id}", action="keys.revoke", handle=revoke_key),
    Route(method="GET", path="/v1/audit", action="audit.list", handle=list_audit, query=AuditPage),
)
