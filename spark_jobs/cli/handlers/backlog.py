"""`fairlane backlog report`: how the backlog arose, what holds it back, and when it will be gone."""

import json
from collections.abc import Sequence

import click
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from backends.system_clock import SystemClock
from fairlane.cli.base.output import Output
from fairlane.cli.base.settings import settings_of
from fairlane.screen.table import section_of
from spark_jobs.backlog.facts import ReportOptions
from spark_jobs.backlog.job import report as make_report
from spark_jobs.backlog.job import session_settings
from spark_jobs.backlog.page import Section, page, sections, sentences
from spark_jobs.backlog.report import BacklogReport
from spark_jobs.backlog.snapshots import find
from spark_jobs.cli.handlers.spark_session import running, tables_of

_OMITTED_FIRST = (*("not sent", "retried", "p95", "wait p50", "held back by", "done at capacity", "arrive/s", "from"),)
"""Columns of the report that are omitted first if there is no room."""


def report(
    ctx: click.Context,
    since_s: float,
    recent_s: float,
    capacity: int | None,
    top: int,
    master: str,
    tables: str | None,
    output: str,
) -> None:
    now_ms = SystemClock().wall_ms()
    folder = tables_of(settings_of(ctx), tables)
    options = ReportOptions(folder, now_ms - round(since_s * 1000), recent_s, capacity or 0, top)
    _show(_made(options, master, now_ms), output)


def _made(options: ReportOptions, master: str, now_ms: int) -> BacklogReport:
    find(options.tables, options.since_ms)  # before Spark starts, which takes long
    with running(session_settings(master)) as spark:
        return make_report(spark, options, now_ms)


def _show(report: BacklogReport, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(msgspec.to_builtins(report), indent=2))
    elif output == "html":
        click.echo(page(report))
    else:
        Output().emit(report, lambda: _drawn(list(sentences(report)), sections(report)))


def _drawn(lines: Sequence[str], sections: Sequence[Section]) -> RenderableType:
    return Group(*map(Text, lines), *(section_of(title, rows, _OMITTED_FIRST) for title, rows in sections if rows))
