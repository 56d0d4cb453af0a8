"""Render the report on the backlog: sentences and tables for a terminal, and one self-contained HTML file."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

from dispatcher.model.values import NOTHING, counted
from fairlane.pages import page as html
from spark_jobs.backlog import pictures
from spark_jobs.backlog.causes import ADVICE, MEANINGS, UNKNOWN, fractions
from spark_jobs.backlog.facts import HOUR_MS
from spark_jobs.backlog.pictures import clock, tagged
from spark_jobs.backlog.report import BacklogGroup, BacklogReport, TaskWaits, Waits, span

Row = Mapping[str, str]
Section = tuple[str, Sequence[Row]]
_SHORT_MS = 600_000
NOW, AGE, HELP = "When will it be gone?", "How old is what waits?", "What helps?"
_TEXTS = ("held back by", "meaning", "what helps")
"""The columns of text."""


def sentences(report: BacklogReport) -> Iterator[str]:
    """Yield the sentences, the most important first."""
    total = report.total
    backlog = f"{counted(total.backlog, 'target')} of {counted(total.tasks, 'task')}"
    yield f"{backlog} waited at {moment(report.until_ms)}{_held(total)}."
    if report.recent_s:
        yield (
            f"In the last {span(report.recent_s)} {total.arrival_rate:,.0f} targets/s arrived and "
            f"{total.service_rate:,.0f} were sent{_capacity(report)}, by {counted(report.service.workers, 'worker')}."
        )
    if total.backlog:
        yield _ahead(report)
    main = next((cause for cause in total.held_back if cause != UNKNOWN), "")
    if total.backlog and main:
        yield f"What holds it back most: {main}: {MEANINGS[main]}."
    missing = sum(gap.until_ms - gap.from_ms for gap in report.gaps) / 1000
    if missing:
        yield f"For {span(missing)} of the time there are no snapshots."


def _held(total: BacklogGroup) -> str:
    return f", {total.held:,} of them paused, scheduled or held" if total.held else ""


def _capacity(report: BacklogReport) -> str:
    return f" (the capacity is {report.service.capacity:,})" if report.service.capacity else ""


def _ahead(report: BacklogReport) -> str:
    """Return when the backlog will be gone."""
    total, asked = report.total, report.service.asked_capacity
    if total.backlog == total.held:
        return "None of it may be sent now."
    sent = "never sent" if total.done_s is None else f"sent in {span(total.done_s)}"
    faster = f", at {asked:,} targets/s in {span(total.done_at_capacity_s)}" if asked else ""
    growing = " More targets arrive than are sent: the backlog grows." if report.growing else ""
    return f"At the present rate it is {sent}{faster}, if nothing more comes.{growing}"


def sections(report: BacklogReport) -> list[Section]:
    """Return the sections: a title and rows each."""
    groups = (*report.tiers, *report.apps, *report.channels)
    return [
        ("Tasks that waited most", [_task(task) for task in report.tasks]),
        (NOW, [_group(group, report.service.asked_capacity) for group in groups]),
        (AGE, _ages(report)),
        (HELP, _causes(report)),
    ]


def _task(task: TaskWaits) -> Row:
    return {
        "task": task.task,
        "app": task.app,
        "tier": task.tier,
        "channel": task.channel,
        "targets": f"{task.targets:,}",
        "backlog": f"{task.backlog:,}",
        "from": clock(task.begun_ms),
        "until": NOTHING if task.ended_ms is None else clock(task.ended_ms),
        "done in": NOTHING if task.held_by or task.ended_ms is not None else span(task.done_s),
        "held back by": task.held_by.replace("_", " ") or _held_back(task.held_back),
        **_waits(task.waits),
    }


def _group(group: BacklogGroup, asked: int) -> Row:
    return {
        "what": f"{group.dimension} {group.name}",
        "backlog": f"{group.backlog:,}",
        "tasks": f"{group.tasks:,}",
        "arrive/s": f"{group.arrival_rate:,.0f}",
        "sent/s": f"{group.service_rate:,.0f}",
        "oldest": NOTHING if group.oldest_s is None else span(group.oldest_s),
        "done in": ahead(group, group.done_s),
        "done at capacity": ahead(group, group.done_at_capacity_s) if asked else NOTHING,
        "held back by": _held_back(group.held_back),
        **_waits(group.waits),
    }


def ahead(group: BacklogGroup, seconds: float | None) -> str:
    """Return the time until a group's backlog is gone. There is no forecast for a backlog that may not be sent now."""
    return NOTHING if group.backlog == group.held else span(seconds)


def _waits(waits: Waits | None) -> Row:
    if waits is None:
        return {}
    shown = {
        "wait p50": span(waits.p50_s),
        "p95": span(waits.p95_s),
        "retried": f"{waits.retried:.1%}",
        "not sent": f"{waits.lost:.1%}",
    }
    return shown if waits.done else dict.fromkeys(shown, NOTHING)


def _ages(report: BacklogReport) -> list[Row]:
    rows: list[Row] = [
        {"waiting for": band.label, "backlog": f"{band.backlog:,}", "sent in": span(band.drain_s)}
        for band in report.ages
        if band.backlog
    ]
    later: Row = {"waiting for": "scheduled for later", "backlog": f"{report.scheduled:,}", "sent in": NOTHING}
    return [*rows, later] if report.scheduled else rows


def _causes(report: BacklogReport) -> list[Row]:
    """Return the causes of the period, whether they still hold or not."""
    hours = dict.fromkeys(MEANINGS, 0.0)
    for task in report.tasks:
        for cause, part in task.held_back.items():
            hours[cause] += part * task.target_hours
    return [
        {"cause": cause, "part": f"{part:.0%}", "meaning": MEANINGS[cause], "what helps": ADVICE[cause] or NOTHING}
        for cause, part in fractions(hours).items()
        if part >= 0.005
    ]


def _held_back(parts: Mapping[str, float]) -> str:
    """Return the two largest causes."""
    found = [f"{cause} {part:.0%}" for cause, part in list(parts.items())[:2] if part >= 0.05]
    return ", ".join(found) or NOTHING


def moment(at_ms: int) -> str:
    """Format a time in UTC, to the minute."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def period(from_ms: int, until_ms: int) -> str:
    """Format a time span in UTC: to the second if it is short, and with the date only once if it is within one day."""
    first, last = (datetime.fromtimestamp(at_ms / 1000, UTC) for at_ms in (from_ms, until_ms))
    clock = "%H:%M:%S" if until_ms - from_ms < _SHORT_MS else "%H:%M"
    if from_ms == until_ms:
        return f"{first:%Y-%m-%d %H:%M:%S} UTC"
    end = clock if first.date() == last.date() else f"%Y-%m-%d {clock}"
    return f"{first:%Y-%m-%d} {first:{clock}} to {last:{end}} UTC ({span((until_ms - from_ms) / 1000)})"


# ----------------------------------------------------------------- the page


def page(report: BacklogReport) -> str:
    """Return the report as a file of HTML. Each picture answers the question above it."""
    tables = {title: html.table(rows, _TEXTS) for title, rows in sections(report) if rows}
    every = report.series.step_ms
    time = "each hour" if every == HOUR_MS else f"each {span(every / 1000)}"
    found = {
        "Who waited, when, and why?": (
            f"Targets that waited in {time}, on average, by what held them back. Each app has its own scale.",
            pictures.waiting(report),
        ),
        "Which tasks waited most?": ("", pictures.tasks(report)),
        "How long did a push wait?": (
            f"The wait that 95 % of the targets done in {time} did not exceed.",
            pictures.waits(report),
        ),
        "How much waited?": ("", _half(pictures.backlog(report))),
        "Did more arrive than was sent?": ("", _half(pictures.rates(report))),
        "Did each tier get its share?": ("", _half(pictures.shares(report))),
        AGE: ("", _half(tables.get(AGE, ""))),
        NOW: ("", tables.get(NOW, "")),
        HELP: ("", tables.get(HELP, "")),
    }
    parts = [(title, f'<p class="soft">{note}</p>{content}') for title, (note, content) in found.items() if content]
    return html.page(f"Backlog, {moment(report.until_ms)}", _head(report), parts)


def _half(picture: str) -> str:
    return picture and tagged("half", picture, "div")


def _head(report: BacklogReport) -> str:
    first, *others = sentences(report)
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in _figures(report))
    rows = "no outcome journal" if report.journal_rows is None else f"{report.journal_rows:,} outcomes of the journal"
    return (
        f'<p class="soft">{period(report.from_ms, report.until_ms)}, from '
        f"{report.snapshots:,} snapshot{'s' * (report.snapshots != 1)} and {rows}</p>\n<h1>{escape(first)}</h1>\n"
        f"<p>{escape(' '.join(others))}</p>\n<dl>{figures}</dl>"
    )


def _figures(report: BacklogReport) -> Iterator[tuple[str, str]]:
    total = report.total
    yield "waiting targets", f"{total.backlog:,}"
    yield "tasks with a backlog", f"{total.tasks:,}"
    yield "arrive a second", f"{total.arrival_rate:,.0f}"
    yield "sent a second", f"{total.service_rate:,.0f}"
    if total.backlog:
        yield "the oldest waits", NOTHING if total.oldest_s is None else span(total.oldest_s)
        yield "done at this rate in", ahead(total, total.done_s)
