"""`fairlane task why`."""

from typing import Any

import click

from dispatcher.why import MEANINGS, NO_CHANNEL, Part, Why
from fairlane.cli.connect import client_of
from fairlane.cli.output import Output, output_option, say
from fairlane.screen.render import short_seconds

ADVICE = {
    "paused": "fairlane task resume {id}",
    "held_until_sealed": "finish its submission",
    "channel_paused": "fairlane channel resume NAME",
    "tier_share": "fairlane tier set, or fairlane task set {id} tier=TIER",
    "task_weight": "fairlane task set {id} weight=N",
    "app_weight": "fairlane app weight APP N",
    "task_cap": "fairlane task set {id} cap=RATE",
    "cap_total": "fairlane capacity set RATE",
    "no_worker": "more workers: fairlane worker",
    "retry_wait": "see why sends fail: fairlane task failures {id}",
    "sending": "more workers, or a quicker channel",
}
"""Cause -> what makes it less. Of the others nothing does, or nobody knows."""


@click.command()
@click.argument("task_id", metavar="ID")
@output_option
@click.pass_context
def why(ctx: click.Context, output: Output, task_id: str) -> None:
    """Where the task's time went: how much of it to each cause, and what would make that less. Together they are the
    task's age."""
    with client_of(ctx) as client:
        found = client.why(task_id)
    parts = [_row(part, found) for part in found.parts]
    fields = {"id": found.task, "state": found.state, "age_s": found.age_ms / 1000, "now": found.now, "parts": parts}
    output.emit_document(fields, [_shown(row) for row in parts])
    if output.as_json:
        return
    say(f"{found.task} is {found.state}, {short_seconds(found.age_ms / 1000)} old.")
    if found.now:
        reason = f"no worker has channel {found.channel}" if found.now == NO_CHANNEL else MEANINGS[found.now]
        say(f"{found.task} is held back now: {reason}")


def _row(part: Part, found: Why) -> dict[str, Any]:
    return {
        "cause": part.cause,
        "seconds": round(part.ms / 1000, 3),
        "part": round(part.ms / found.age_ms, 4),
        "meaning": part.meaning,
        "advice": _advice(part.cause, found.task),
    }


def _advice(cause: str, task: str) -> str:
    kind, _, names = cause.removeprefix("cap:").partition("/")
    if not cause.startswith("cap:"):
        return ADVICE.get(cause, "").format(id=task)
    if kind == "app_channel":
        app, _, channel = names.partition("/")
        return f"fairlane app cap {app} RATE --channel {channel}"
    return f"fairlane {kind} cap {names} RATE"


def _shown(row: dict[str, Any]) -> dict[str, str]:
    return {
        "part": f"{row['part']:.1%}",
        "time": short_seconds(row["seconds"]),
        "where it went": row["meaning"],
        "what helps": row["advice"] or "-",
    }
