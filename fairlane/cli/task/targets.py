"""The filters of the commands that list targets, and the fields that they print with -o json."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from fairlane.cli.base.arguments import MOMENT
from fairlane.cli.base.completion import app_names, channel_names, task_ids
from fairlane.cli.base.options import F, with_options
from producers.outcomes.record import TargetFilter

FAILURE_FIELDS = ("task", "target", "outcome", "reason", "attempt", "channel", "at_ms")
OUTCOME_FIELDS = (*FAILURE_FIELDS, "writer", "sequence", "position", "provider_id")
LETTER_FIELDS = (*FAILURE_FIELDS, "app", "variables", "first_call_ms", "state", "replay", "lane")
REASON_FIELDS = ("outcome", "reason", "count", "example", "first_ms", "last_ms")
GROUP_FIELDS = ("task", "app", "channel", "state", "replay", *REASON_FIELDS)


def target_filters(letters: str, given_up: str, *names: str) -> Callable[[F], F]:
    """Give a command these filters of targets, passed to it as `chosen`. letters, given_up: words of their help."""
    options = {
        "task": click.option("--task", metavar="ID", help=f"Only {letters} of this task.", shell_complete=task_ids),
        "app": click.option("--app", help=f"Only {letters} of this app. Filters combine.", shell_complete=app_names),
        "channel": click.option("--channel", help=f"Only {letters} of this channel.", shell_complete=channel_names),
        "error": click.option("--error", metavar="TEXT", help=f"Only {letters} whose reason contains this text."),
        "since": click.option(
            "--since", type=MOMENT, help=f"Only {letters} {given_up} at or after this: a time, or how long ago (2h)."
        ),
        "until": click.option(
            "--until", type=MOMENT, help=f"Only {letters} {given_up} before this: a time, or how long ago (2h)."
        ),
        "without_task": click.option(
            "--without-task",
            is_flag=True,
            help="Only messages that were not envelopes. They have no task, and cannot be sent again.",
        ),
    }

    def decorated(command: F) -> F:
        @wraps(command)
        def called(*args: Any, **given: Any) -> Any:
            chosen = TargetFilter(**{name: given.pop(name) for name in names})
            return command(*args, chosen=chosen, **given)

        return with_options(*(options[name] for name in names))(called)  # type: ignore[return-value]  # with options

    return decorated
