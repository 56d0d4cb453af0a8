"""Render the report on the backlog as one self-contained HTML file."""

from collections.abc import Iterator
from html import escape

from dispatcher.pages import page as html
from spark_jobs.backlog import pictures as backlog_pictures
from spark_jobs.backlog.report import BacklogReport, span
from spark_jobs.backlog.tables import ahead, moment, period, sections, sentences

_PROSE = ("held back by", "meaning", "what helps")
"""The columns of text."""


def page(report: BacklogReport) -> str:
    """Return the whole file."""
    pictures = [(title, svg) for title, svg in _pictures(report) if svg]
    tables = [(title, html.table(rows, _PROSE)) for title, rows in sections(report) if rows]
    return html.page(f"Backlog, {moment(report.until_ms)}", _head(report), [*pictures, *tables])


def _pictures(report: BacklogReport) -> Iterator[tuple[str, str]]:
    yield "Backlog over time", backlog_pictures.backlog(report)
    yield "Arrived and sent", backlog_pictures.rates(report)
    yield "What holds it back", backlog_pictures.causes(report)
    yield "Shares, wanted and actual", backlog_pictures.shares(report)
    yield "Wait by app", backlog_pictures.waits(report)
    yield "Age of what waits", backlog_pictures.ages(report)


def _head(report: BacklogReport) -> str:
    texts = "".join(f"<p>{escape(line)}</p>\n" for line in sentences(report))
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in _figures(report))
    rows = "no outcome journal" if report.journal_rows is None else f"{report.journal_rows:,} outcomes of the journal"
    return (
        f'<h1>Backlog</h1>\n<p class="soft">{period(report.from_ms, report.until_ms)}, from '
        f"{report.snapshots:,} snapshot{'s' * (report.snapshots != 1)} and {rows}.</p>\n<dl>{figures}</dl>\n{texts}"
    )


def _figures(report: BacklogReport) -> Iterator[tuple[str, str]]:
    total = report.total
    yield "waiting targets", f"{total.backlog:,}"
    yield "tasks with a backlog", f"{total.tasks:,}"
    yield "arrive a second", f"{total.arrival_rate:,.0f}"
    yield "sent a second", f"{total.service_rate:,.0f}"
    if total.backlog:
        yield "the oldest waits", span(total.oldest_s) if total.oldest_s is not None else "-"
        yield "done at this rate in", ahead(total, total.done_s)
    if report.service.asked_capacity and total.backlog:
        yield f"at {report.service.asked_capacity:,}/s in", ahead(total, total.done_at_capacity_s)
