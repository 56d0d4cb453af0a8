"""Common parts of `fairlane app` and `fairlane channel`: listing and showing names from tasks and settings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from dispatcher.model.cap_state import CapState
from dispatcher.model.errors import NotFound
from dispatcher.model.view import Globals, TaskView
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.output import Output
from fairlane.figures.usage import AppUsage, ChannelUsage

Read = Callable[[Globals, Sequence[TaskView], Mapping[str, CapState]], Sequence[AppUsage | ChannelUsage]]
"""Returns usages from the settings, the live tasks and the states of caps."""


def list_usage(ctx: click.Context, output: Output, read: Read, columns: Sequence[str], leaving: Sequence[str]) -> None:
    """List all apps or channels in these columns. `leaving`: those omitted first if there is no room."""
    rows = _rows(ctx, read)
    output.emit_rows(rows, columns, leaving, [_short(row) for row in rows])


def show_usage(ctx: click.Context, output: Output, read: Read, kind: str, name: str) -> None:
    """Show the app or channel with that name. `kind`: the field that has the name, and the command. Raises NotFound."""
    row = next((row for row in _rows(ctx, read) if row[kind] == name), None)
    if row is None:
        raise NotFound(f"There is no {kind} {name} in any live task or setting.", f"`fairlane {kind} list` shows all.")
    output.emit_record(row)


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in which paused apps have only the kind of their pause."""
    return row | {"paused_apps": {app: pause["kind"] for app, pause in row.get("paused_apps", {}).items()}}


def _rows(ctx: click.Context, read: Read) -> list[dict[str, Any]]:
    with client_of(ctx) as client:
        return [asdict(usage) for usage in read(client.globals(), client.live_tasks(), client.cap_states())]
