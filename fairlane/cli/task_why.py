"""`fairlane task why`."""

import click

from dispatcher.why import MEANINGS
from fairlane.cli.connect import client_of
from fairlane.cli.output import Output, output_option, say


@click.command()
@click.argument("task_id", metavar="ID")
@output_option
@click.pass_context
def why(ctx: click.Context, output: Output, task_id: str) -> None:
    """Where the task's time went: how much of it to each cause; together they are its age."""
    with client_of(ctx) as client:
        found = client.why(task_id)
    parts = [
        {
            "cause": part.cause,
            "seconds": round(part.ms / 1000, 3),
            "part": round(part.ms / found.age_ms, 4),
            "meaning": part.meaning,
        }
        for part in found.parts
    ]
    fields = {"id": found.task, "state": found.state, "age_s": found.age_ms / 1000, "now": found.now, "parts": parts}
    output.emit_document(fields, [{**row, "part": f"{row['part']:.1%}"} for row in parts])
    if not output.as_json and found.now:
        say(f"{found.task} is held back now: {MEANINGS[found.now]}")
