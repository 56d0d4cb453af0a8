"""`fairlane ingest`: turn a table into a task."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dispatcher.model.errors import InvalidInput
from fairlane.cli.base.arguments import FRACTION
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option, say
from spark_jobs.cli.backlog import tables_option
from spark_jobs.cli.spark_session import SparkOptions, spark_options
from spark_jobs.cli.table_source import names_of, source_of, source_options, suppress_of

if TYPE_CHECKING:
    from fairlane.settings import Settings
    from spark_jobs.ingest.job import Ingested, IngestOptions
    from spark_jobs.session.stage_progress import Progress
    from spark_jobs.source.task_options import TaskOptions

_SHOWN_REASONS = 10


@click.command()
@click.argument("taskfile", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--audience",
    metavar="PATH",
    help="The table: a file, folder or pattern; for jdbc its URL. Default: `targets` in TASKFILE.",
)
@source_options
@click.option(
    "--suppress",
    metavar="PATH",
    multiple=True,
    help="Leave these targets out: a table with a column target. --option and --map count for it, too; with names like "
    "suppress.delimiter only for it.",
)
@click.option(
    "--min-matched",
    type=FRACTION,
    default="50%",
    help="Send nothing if less than this part of the rows of a --suppress table can be targets of the channel.",
)
@click.option(
    "--invalid-targets/--no-invalid-targets", default=True, help="Leave out targets that providers reported as invalid."
)
@click.option(
    "--max-refused", type=FRACTION, default="5%", help="Send nothing if more than this part of the rows is invalid."
)
@click.option(
    "--strict", is_flag=True, help="Refuse a task whose channel no live worker serves; without it, only warn."
)
@click.option("--dry-run", is_flag=True, help="Only report what would be accepted and left out. Needs no servers.")
@click.option("--abandon", is_flag=True, help="End the tasks of TASKFILE that failed runs have left incomplete.")
@tables_option
@spark_options
@output_option
@pass_settings
def ingest(
    settings: "Settings",
    /,
    output: Output,
    spark: SparkOptions,
    taskfile: Path,
    *,
    dry_run: bool,
    abandon: bool,
    strict: bool,
    **given: Any,
) -> None:
    """Submit the task that TASKFILE describes, with a table of any size as its audience.

    TASKFILE is YAML or JSON, as for `fairlane task submit`: the fields of a task (id, app, tier, channel, message,
    ttl_s, ...) and optionally `targets` (the table), `variables` (columns that are sent with each target; default:
    all others) and `split` (columns; each combination of their values becomes a task). Every row is checked;
    duplicates and suppressed targets are left out. Rows left out are written to the table rejects/ with the reason.
    The task is held until the whole table is stored. A run that ended early has sent nothing; run it again to finish,
    or end what it left with --abandon.

    \b
    fairlane ingest sale.yaml --audience people.parquet
    fairlane ingest sale.yaml --audience people.csv --map token=target --suppress optout.parquet --dry-run

    Below about a million rows `fairlane task submit` does the same without Spark.
    """
    if abandon:
        _abandon(settings, taskfile, output)
        return
    from spark_jobs.session.session import require_spark

    require_spark()
    from backends.settings import require_addresses
    from spark_jobs.ingest import job

    if not dry_run:
        require_addresses(settings.pulsar, settings.redis)  # Spark takes seconds to start
    options = _options(settings, taskfile, given, needs_servers=not dry_run)
    if not dry_run and options.task.channel is not None:
        _check_channel(settings, options.task, strict=strict)
    with spark.session("fairlane ingest") as session:
        if dry_run:
            result = job.dry_run(session, options)
        else:
            with _bar(options.task.task) as on_progress:
                result = job.ingest(session, options, on_progress)
    _tell(result)
    output.emit_record({"tasks": ", ".join(result.tasks), **asdict(result.counts), "rejects": result.rejects})


def _abandon(settings: "Settings", taskfile: Path, output: Output) -> None:
    from spark_jobs.ingest.left import abandon
    from spark_jobs.ingest.task import read_task
    from spark_jobs.session.servers import values_of

    task = read_task(taskfile, values_of(settings)).options
    tasks = abandon(task)
    if not tasks:
        say(
            f"No task of {taskfile} is incomplete. Tasks with other options than it has now are left alone: "
            f"`fairlane task list --id-prefix {task.task}`."
        )
    output.emit_record({"abandoned": ", ".join(tasks), "count": len(tasks)})


def _check_channel(settings: "Settings", task: "TaskOptions", *, strict: bool) -> None:
    """Warn if no live worker has the channel, or it ignores a field. With `strict`, raise Refused without a worker."""
    from producers.client import PushClient
    from producers.submit.channel_check import ChannelCheck

    message = None if task.split else task.push_task(task.task).complete_message
    with PushClient.connect(settings) as client:
        check = ChannelCheck(client.workers).check
        check(task.channel or "", strict=strict, on_warning=lambda text: say(f"Warning: {text}"), message=message)


def _options(settings: "Settings", taskfile: Path, given: Mapping[str, Any], *, needs_servers: bool) -> "IngestOptions":
    from spark_jobs.ingest.job import IngestOptions
    from spark_jobs.ingest.task import read_task
    from spark_jobs.session.servers import values_of, values_without_servers

    task = read_task(taskfile, values_of(settings) if needs_servers else values_without_servers(settings))
    audience = given["audience"] or task.audience
    if not audience:
        raise click.UsageError(f"Give the table: --audience PATH, or `targets` in {taskfile}.")
    source = source_of(audience, given)
    return IngestOptions(
        task=task.options,
        audience=source,
        tables=given["tables"] or settings.tables_folder,
        suppress=suppress_of(source, given),
        invalid_targets=given["invalid_targets"],
        names=names_of(given),
        forms=_forms(settings.token_forms),
        max_refused=given["max_refused"],
    )


def _forms(forms: Mapping[str, str]) -> Mapping[str, str]:
    for channel, form in forms.items():
        try:
            re.compile(form)
        except re.error as error:
            raise InvalidInput(f"token_forms: the entry for {channel} is not a regular expression: {error}.") from None
    return forms


def _tell(result: "Ingested") -> None:
    for one in result.lists:
        say(f"suppress list {one}")
    reasons = sorted(result.reasons.items(), key=lambda item: -item[1])
    for reason, count in reasons[:_SHOWN_REASONS]:
        say(f"{count:,} left out: {reason}")
    if len(reasons) > _SHOWN_REASONS:
        say(f"and {len(reasons) - _SHOWN_REASONS} more reasons; see the rejects")


@contextmanager
def _bar(task: str) -> "Iterator[Callable[[Progress], None]]":
    """Show the done parts of the present stage, rows/s, and the time left; without a terminal nothing is shown."""
    from fairlane.screen.progress import progress_lines

    with progress_lines() as bar:
        line = bar.add_task(f"{task}: starting", figures="", total=None)

        def show(now: "Progress") -> None:
            what = "reading" if now.stage <= 1 else "writing"
            total = now.parts or None
            bar.update(
                line, description=f"{task}: {what}", completed=now.parts_done, total=total, figures=figures_of(now)
            )

        yield show


def figures_of(now: "Progress") -> str:
    """Return rows, rate and time left, as far as they are known."""
    from dispatcher.model.values import duration

    rate = f"{now.rows:,} rows, {now.rows / now.stage_seconds:,.0f}/s" if now.rows and now.stage_seconds else ""
    if not 0 < now.parts_done < now.parts:
        return rate
    left_s = now.stage_seconds * (now.parts - now.parts_done) / now.parts_done
    return ", ".join(filter(None, [rate, f"{duration(left_s)} left"]))
