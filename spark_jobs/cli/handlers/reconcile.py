"""`fairlane reconcile`: checks whether the recorded outcomes add up to what was requested."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession

from dispatcher.model.errors import FairlaneError, NotFound
from dispatcher.wire.outcome import OUTCOME_NAMES
from fairlane.cli.base.exit_codes import FAILURE
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import settings_of
from fairlane.settings import Settings
from producers.client import PushClient
from producers.files.audience_rows import RowRules
from spark_jobs.cli.handlers.spark_session import spark_session, tables_of
from spark_jobs.cli.handlers.table_source import names_of, source_of
from spark_jobs.ingest.audience import read_table, renamed, with_targets
from spark_jobs.journal.tables import outcome_rows
from spark_jobs.reconcile.job import Reconciled, ReconcileScope, TaskSum, given_audience
from spark_jobs.reconcile.job import reconcile as compare

_UNKNOWN = "unknown"


def reconcile(
    ctx: click.Context,
    output: Output,
    task: str | None,
    day: str | None,
    *,
    master: str,
    memory: str,
    conf: Mapping[str, str],
    **given: Any,
) -> None:
    _check_usage(task, day, given["audience"])

    settings = settings_of(ctx)
    what = ReconcileScope(tables_of(settings, given["tables"]), task or "", day or "")
    rows = outcome_rows(what.tables)
    with spark_session("fairlane reconcile", rows, master=master, memory=memory, conf=conf) as session:
        audience = _audience(session, what, settings, given) if given["audience"] else None
        result = compare(session, what, audience, given["listed"])
    shown = [_row(each, live) for each, live in _with_live(settings, result.sums)]
    _show(output, shown, result)
    if result.count or any(not row["adds_up"] or row["live"] not in ("same", "behind", _UNKNOWN) for row in shown):
        ctx.exit(FAILURE)


def _check_usage(task: str | None, day: str | None, audience: str | None) -> None:
    if bool(task) == bool(day):
        raise click.UsageError("Give either a TASK or --day.")
    if audience and not task:
        raise click.UsageError("--audience needs a TASK.")
    if day:
        try:
            date.fromisoformat(day)
        except ValueError:
            raise click.BadParameter(f"{day!r} is not a day; write YYYY-MM-DD", param_hint="--day") from None


def _audience(spark: SparkSession, scope: ReconcileScope, settings: Settings, given: Mapping[str, Any]) -> DataFrame:
    names = names_of(given)
    table = read_table(spark, source_of(given["audience"], given, settings.storage), RowRules(names=names))
    table = with_targets(renamed(table, names))
    return given_audience(spark, table, scope.tables, scope.task)


def _with_live(settings: Settings, sums: "Any") -> list[tuple[TaskSum, Mapping[str, int] | None]]:
    """Return each task with its live counters; None where these know nothing (any more), or cannot be read."""
    counts: dict[str, Mapping[str, int]] = {}
    try:
        with PushClient.connect(settings) as client:
            for each in sums:
                with suppress(NotFound):
                    targets = client.task(each.task).progress().targets
                    counts[each.task] = {name: getattr(targets, name) for name in OUTCOME_NAMES}
    except FairlaneError as error:  # what was added up from the tables is shown all the same
        say(f"The live counters cannot be read: {error.cause}")
    return [(each, counts.get(each.task)) for each in sums]


def _row(each: TaskSum, live: Mapping[str, int] | None) -> dict[str, Any]:
    return {
        "task": each.task,
        "app": each.app,
        "state": each.state or "live",
        "audience": each.audience,
        **each.totals,
        "adds_up": each.adds_up,
        "live": _compared(each, live),
    }


def _compared(each: TaskSum, live: Mapping[str, int] | None) -> str:
    """Return the comparison: same; behind (the journal has not yet landed everything); or the difference."""
    if live is None:
        return _UNKNOWN
    apart = {name: live[name] - each.totals[name] for name in live if live[name] != each.totals[name]}
    if not apart:
        return "same"
    if not each.state and all(more > 0 for more in apart.values()):
        return "behind"
    return ", ".join(f"{name} {more:+,}" for name, more in apart.items())


def _show(output: Output, rows: list[dict[str, Any]], result: Reconciled) -> None:
    document = {
        "tasks": rows,
        "differences": result.differences,
        "difference_count": result.count,
        "table": result.folder,
    }
    output.emit_document(document, rows)
    for difference in result.differences:
        which = (
            difference["target"]
            or f"{difference['writer']}/{difference['sequence']}/{difference['position']} (writer, envelope, position)"
        )
        say(f"{difference['task']}: {which} {difference['difference']}")
    if result.count:
        say(f"{result.count:,} differences; all of them are in {result.folder}")
    if result.note:
        say(result.note)
