"""`fairlane task edit`: change the message of targets that are not sent yet."""

from pathlib import Path
from typing import Any

import click

from backends.text_files import read_text
from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import is_object
from fairlane.cli.base.completion import task_argument
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.json_option import parse_object
from fairlane.cli.base.output import Output, output_option, say


@click.command()
@task_argument
@click.option("--message", required=True, metavar="FILE|JSON|TEXT", help="A JSON file, a JSON object, or a text.")
@output_option
@click.pass_context
def edit(ctx: click.Context, output: Output, task_id: str, message: str) -> None:
    """Change the message for all targets of a task not sent yet, retries included. A plain text becomes the body.

    \b
    fairlane task edit ID --message '{"title": "Sale", "body": "60 % off"}'
    fairlane task edit ID --message new.json
    """
    with client_of(ctx) as client:
        made = client.edit_message(task_id, read_message(message))
    start = "when Redis is back" if made.lacks_redis else "within 2 s"
    report = f"{task_id}: edit {made.number} is in force {start}, for all targets not sent yet"
    if made.latest != made.number:
        report = f"{task_id}: edit {made.number} was replaced at once by edit {made.latest}, made at the same time"
    if output.as_json:
        output.emit_record({"id": task_id, "edit": made.number, "latest": made.latest})
    say(report)


def read_message(text: str) -> Any:
    """Parse the option: a JSON object, a file that contains one (or a text), or a text. Raises InvalidInput."""
    if is_object(text):
        return parse_object(text, "message: --message")
    is_json = text.lower().endswith(".json")
    try:
        is_file = len(text) < 4_096 and "\n" not in text and Path(text).is_file()
    except OSError:
        is_file = False
    if not is_file and is_json:
        raise InvalidInput(f"message: there is no file {text}.", "Name a JSON file, or give the message itself.")
    if not is_file:
        return text.removeprefix("\ufeff")
    content = read_text(text, "message:", "Name a text or JSON file in UTF-8.").strip()
    if not content:
        raise InvalidInput(f"message: {text} is empty.", "Name a text or JSON file.")
    return parse_object(content, f"message: {text}") if is_json or is_object(content) else content
