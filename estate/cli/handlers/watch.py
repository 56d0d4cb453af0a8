"""`fairlane estate guard` and `capture`."""

import re
from contextlib import closing
from pathlib import Path

import click

from backends.pulsar.client import topics
from backends.system_clock import SystemClock
from dispatcher.model.errors import InvalidInput, NotReady, Unreachable
from dispatcher.wire.topics import TASK_PATTERN, topics_of_lane
from estate.capture import quick_client, take_capture
from estate.guard.process import run_guard
from estate.rules.incidents import Incident
from fairlane.cli.base.exit_codes import OK
from fairlane.cli.base.output import say
from fairlane.cli.base.settings import settings_of
from fairlane.settings import Settings
from fairlane.worker.process.stop_signal import stop_on_signals


def guard(ctx: click.Context, *, act: bool, metrics_port: int) -> int:
    run_guard(settings_of(ctx), stop_on_signals(), acts=act, metrics_port=metrics_port)
    return OK


def capture(ctx: click.Context, task: str | None, output: Path | None) -> None:
    settings = settings_of(ctx)
    incident = Incident("asked for by hand")
    if task is not None:
        incident = Incident(f"task {task}, asked for by hand", task=task, topics=tuple(_topics(settings, task)))
    click.echo(take_capture(settings, incident, SystemClock(), output))


def _topics(settings: Settings, task: str) -> list[str]:
    """Return the topics of a task's lane. Without Redis it is taken for one of its own, without partitions."""
    try:
        with closing(quick_client(settings)) as client:
            view = client.task(task).progress()
        return topics_of_lane(view.lane, view.partitions)
    except (NotReady, Unreachable) as error:
        if re.fullmatch(TASK_PATTERN, task) is None:
            raise InvalidInput(f"--task: {task!r} is no id of a task.", "`fairlane task list` shows them.") from error
        say(f"The task cannot be looked up ({error.cause}) Its usual lane is recorded.")
        return [topics(settings.pulsar).own_lane(task)]
