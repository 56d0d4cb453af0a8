"""`fairlane reconcile`: checks whether the recorded outcomes add up to what was requested."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dispatcher.model.errors import FairlaneError, NotFound
from dispatcher.wire.outcome import OUTCOME_NAMES
from fairlane.cli.base.completion import task_ids
from fairlane.cli.base.connect import settings_of
from fairlane.cli.base.exit_codes import FAILURE
from fairlane.cli.base.output import Output, output_option, say
from spark_jobs.cli.backlog import tables_option
from spark_jobs.cli.spark_session import SparkOptions, spark_options
from spark_jobs.cli.table_source import names_of, source_of, source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from fairlane.settings import Settings
    from spark_jobs.reconcile.job import Reconciled, TaskSum

_UNKNOWN = "unknown"


@click.command()
@click.argument("task", required=False, shell_complete=task_ids)
@click.option("--day", metavar="YYYY-MM-DD", help="All tasks that were accepted or sent on this day (UTC).")
@click.option("--audience", metavar="PATH", help="The table that TASK was ingested from, to compare target by target.")
@source_options
@click.option("--list", "listed", type=click.IntRange(0), default=20, help="Maximum number of differences shown.")
@tables_option
@spark_options
@output_option
@click.pass_context
def reconcile(
    ctx: click.Context, /, output: Output, spark: SparkOptions, task: str | None, day: str | None, **given: Any
) -> None:
    """Check that the outcomes of TASK, or of a day's tasks, add up. Give either TASK or --day.

    The sum audience = sent + invalid + failed + expired + cancelled + pending comes from the outcome journal alone.
    The column `live` compares it with the live counters. Differences are listed and stored in the table reconcile/:
    targets with two outcomes and, with --audience, targets without one and targets that are not in the audience.
    --audience needs a journal that names all targets: set the workers' setting journal.targets to all before the task
    is sent.

    Exit code 1 if anything does not add up or contradicts the live counters; a journal that is only behind them does
    not. First bring it up to date: `fairlane journal run --once`.
    """
    _check_usage(task, day, given["audience"])
    from spark_jobs.session.session import require_spark

    require_spark()
    from spark_jobs.journal.tables import outcome_rows
    from spark_jobs.reconcile.job import ReconcileScope
    from spark_jobs.reconcile.job import reconcile as compare

    settings = settings_of(ctx)
    what = ReconcileScope(given["tables"] or settings.tables_folder, task or "", day or "")
    with spark.session("fairlane reconcile", rows=outcome_rows(what.tables)) as session:
        audience = _audience(session, what.tables, task, given) if given["audience"] else None
        result = compare(session, what, audience, given["listed"])
    rows = [_row(one, live) for one, live in _with_live(settings, result.sums)]
    _show(output, rows, result)
    if result.count or any(not row["adds_up"] or row["live"] not in ("same", "behind", _UNKNOWN) for row in rows):
        ctx.exit(FAILURE)


def _check_usage(task: str | None, day: str | None, audience: str | None) -> None:
    if bool(task) == bool(day):
        raise click.UsageError("Give either a TASK or --day.")
    if audience and not task:
        raise click.UsageError("--audience needs a TASK.")
    if day:
        from datetime import date

        try:
            date.fromisoformat(day)
        except ValueError:
            raise click.BadParameter(f"{day!r} is not a day; write YYYY-MM-DD", param_hint="--day") from None


def _audience(spark: "SparkSession", tables: Path, task: str | None, given: Mapping[str, Any]) -> "DataFrame":
    from producers.files.audience_rows import RowRules
    from spark_jobs.ingest.audience import read_table, renamed, with_targets
    from spark_jobs.reconcile.job import given_audience

    names = names_of(given)
    table = read_table(spark, source_of(given["audience"], given), RowRules(names=names))
    table = with_targets(renamed(table, names))
    return given_audience(spark, table, tables, task or "")


def _with_live(settings: "Settings", sums: "Any") -> "list[tuple[TaskSum, Mapping[str, int] | None]]":
    """Return each task with its live counters; None where these know nothing (any more), or cannot be read."""
    from producers.client import PushClient

    counts: dict[str, Mapping[str, int]] = {}
    try:
        with PushClient.connect(settings) as client:
            for one in sums:
                with suppress(NotFound):
                    targets = client.task(one.task).progress().targets
                    counts[one.task] = {name: getattr(targets, name) for name in OUTCOME_NAMES}
    except FairlaneError as error:  # what was added up from the tables is shown all the same
        say(f"The live counters cannot be read: {error.cause}")
    return [(one, counts.get(one.task)) for one in sums]


def _row(one: "TaskSum", live: Mapping[str, int] | None) -> dict[str, Any]:
    return {
        "task": one.task,
        "app": one.app,
        "state": one.state or "live",
        "audience": one.audience,
        **one.totals,
        "adds_up": one.adds_up,
        "live": _compared(one, live),
    }


def _compared(one: "TaskSum", live: Mapping[str, int] | None) -> str:
    """Return the comparison: same; behind (the journal has not yet landed everything); or the difference."""
    if live is None:
        return _UNKNOWN
    apart = {name: live[name] - one.totals[name] for name in live if live[name] != one.totals[name]}
    if not apart:
        return "same"
    if not one.state and all(more > 0 for more in apart.values()):
        return "behind"
    return ", ".join(f"{name} {more:+,}" for name, more in apart.items())


def _show(output: Output, rows: list[dict[str, Any]], result: "Reconciled") -> None:
    document = {
        "tasks": rows,
        "differences": result.differences,
        "difference_count": result.count,
        "table": result.folder,
    }
    output.emit_document(document, rows)
    for one in result.differences:
        which = one["target"] or f"{one['writer']}/{one['sequence']}/{one['position']} (writer, envelope, position)"
        say(f"{one['task']}: {which} {one['difference']}")
    if result.count:
        say(f"{result.count:,} differences; all of them are in {result.folder}")
    if result.note:
        say(result.note)
