"""`fairlane key`, `fairlane user`, `fairlane audit`, `fairlane app policy`."""

from typing import Any

import click
import msgspec

from dispatcher.model.values import duration
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.output import Output, say
from fairlane.figures.audit_rows import audit_fields
from fairlane.screen.fields import local_moment

KEY_COLUMNS = ("id", "app", "scopes", "state", "ends", "used")
USER_COLUMNS = ("user", "app", "scopes")
AUDIT_COLUMNS = ("at", "by", "app", "task", "field", "before", "after", "request")


def create(ctx: click.Context, app: str | None, scopes: str, ends_in_s: float | None) -> None:
    with client_of(ctx) as client:
        new = client.access.create(app, scopes.split(","), ends_in_s)
    click.echo(new.token)
    ends = f", ends in {duration(ends_in_s)}" if ends_in_s is not None else ""
    say(f"key {new.id} for {f'app {app}' if app else 'all apps'}: {', '.join(sorted(new.key.scopes))}{ends}")
    say("It is shown this once: store it now.")


def list_keys(ctx: click.Context, output: Output, app: str | None) -> None:
    with client_of(ctx) as client:
        rows = [state._asdict() for state in client.access.keys(app)]
    shown = [
        row | {"scopes": ", ".join(row["scopes"]), "ends": _moment(row["ends_ms"]), "used": _moment(row["used_ms"])}
        for row in rows
    ]
    output.emit_rows(rows, KEY_COLUMNS, (), shown)
    if not rows:
        say("There are no keys: fairlane key create --app NAME --scopes submit,read,control")


def revoke(ctx: click.Context, key_id: str) -> None:
    with client_of(ctx) as client:
        client.access.revoke(key_id)
    say(f"key {key_id} is revoked")


def set_user(ctx: click.Context, name: str, app: str | None, scopes: str) -> None:
    with client_of(ctx) as client:
        user = client.access.set_user(name, scopes.split(","), app)
    say(f"user {name} for {f'app {app}' if app else 'all apps'}: {', '.join(sorted(user.scopes))}")


def list_users(ctx: click.Context, output: Output) -> None:
    with client_of(ctx) as client:
        users = client.access.users()
    rows = [{"user": name, "app": user.app, "scopes": sorted(user.scopes)} for name, user in users.items()]
    output.emit_rows(rows, USER_COLUMNS, (), [row | {"scopes": ", ".join(row["scopes"])} for row in rows])
    if not rows:
        say("There are no users: fairlane user set NAME --scopes read")


def remove_user(ctx: click.Context, name: str) -> None:
    with client_of(ctx) as client:
        client.access.remove_user(name)
    say(f"user {name} may do nothing now")


def list_audit(ctx: click.Context, output: Output, app: str | None, limit: int) -> None:
    with client_of(ctx) as client:
        rows = [audit_fields(entry) for entry in client.audit(limit, app)]
    shown = [row | {"at": local_moment(row["at_ms"])} for row in rows]
    output.emit_rows(rows, AUDIT_COLUMNS, ("request", "before"), shown)


def policy(
    ctx: click.Context, output: Output, app: str, channels: tuple[str, ...], tasks: int | None, **bounds: Any
) -> None:
    given = {name: value for name, value in bounds.items() if value is not None}
    if channels:
        given["channels"] = channels
    with client_of(ctx) as client:
        made = client.access.set_policy(app, given) if given else client.access.policy(app)
        if tasks is not None:
            client.limit_app(app, tasks=tasks)
        limit = client.globals().limits_of(app).tasks
    record = {"app": app, **msgspec.structs.asdict(made), "task_limit": limit}
    shown = {name: value for name, value in record.items() if name != "requests_s"}
    output.emit_record(record, shown | {"requests": f"{made.requests_s:,} a second"})


def _moment(at_ms: int) -> str:
    return local_moment(at_ms) if at_ms else ""
