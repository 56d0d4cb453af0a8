"""`fairlane ingest --abandon`, which does not need Spark."""

from pathlib import Path
from typing import Any

import click

from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import settings_of
from fairlane.floors import loaded
from spark_jobs.cli.options import require_spark
from spark_jobs.ingest.left import abandon as end_incomplete
from spark_jobs.ingest.task import read_task
from spark_jobs.session.servers import values_of


def ingest(ctx: click.Context, output: Output, taskfile: Path, *, abandon: bool, **given: Any) -> None:
    settings = settings_of(ctx)
    if not abandon:
        require_spark()
        loaded("spark_jobs.cli.handlers.ingest:ingest")(settings, output, taskfile, **given)
        return
    task = read_task(taskfile, values_of(settings)).options
    tasks = end_incomplete(task)
    if not tasks:
        say(
            f"No task of {taskfile} is incomplete. Tasks with other options than it has now are left alone: "
            f"`fairlane task list --id-prefix {task.task}`."
        )
    output.emit_record({"abandoned": ", ".join(tasks), "count": len(tasks)})
