"""`fairlane estate capture`: the state of the estate and the service, as one archive."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlane.cli.base.completion import task_ids
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import say

if TYPE_CHECKING:
    from fairlane.settings import Settings


@click.command()
@click.option("--task", metavar="ID", shell_complete=task_ids, help="Record this task and its lane in any case.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the archive. Default: `captures` in FAIRLANE_HOME, where the newest 20 are kept.",
)
@pass_settings
def capture(settings: "Settings", task: str | None, output: Path | None) -> None:
    """Record the state of the estate and the service in one archive, for those who look into an incident.

    All brokers and bookies are asked at once, for at most 5 s each; what does not answer is noted in the archive. It
    has what `doctor` reads: load, metrics, settings, Fairlane's own view; and the statistics of lanes that are blocked
    or have the largest backlog. Secrets are masked. It has at most 20 MB: the largest texts are left out. Prints its
    path.
    """
    from backends.system_clock import SystemClock
    from estate.capture import take_capture
    from estate.rules.incidents import Incident

    incident = Incident("asked for by hand")
    if task is not None:
        incident = Incident(f"task {task}, asked for by hand", task=task, topics=tuple(_topics(settings, task)))
    click.echo(take_capture(settings, incident, SystemClock(), output))


def _topics(settings: "Settings", task: str) -> list[str]:
    """Return the topics of a task's lane. Without Redis it is taken for one of its own, without partitions."""
    from contextlib import closing

    from backends.pulsar.client import topics
    from dispatcher.model.errors import InvalidInput, NotReady, Unreachable
    from dispatcher.wire.topics import TASK_PATTERN, topics_of_lane
    from estate.capture import quick_client

    try:
        with closing(quick_client(settings)) as client:
            view = client.task(task).progress()
        return topics_of_lane(view.lane, view.partitions)
    except (NotReady, Unreachable) as error:
        if re.fullmatch(TASK_PATTERN, task) is None:
            raise InvalidInput(f"--task: {task!r} is no id of a task.", "`fairlane task list` shows them.") from error
        say(f"The task cannot be looked up ({error.cause}) Its usual lane is recorded.")
        return [topics(settings.pulsar).own_lane(task)]
