"""Render the report on the backlog: sentences and tables for a terminal, and one self-contained HTML file."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape

from dispatcher.model.values import NOTHING, counted, duration
from fairlane.pages import page as html
from spark_jobs.backlog import pictures as pictures_of
from spark_jobs.backlog.causes import ADVICE, MEANINGS, UNKNOWN
from spark_jobs.backlog.report import BacklogGroup, BacklogReport, TaskBacklog, Waits, span

Row = Mapping[str, str]
Section = tuple[str, Sequence[Row]]
_SHORT_MS = 600_000
_TEXTS = ("held back by", "meaning", "what helps")
"""The columns of text."""


def sentences(report: BacklogReport) -> Iterator[str]:
    """Yield the sentences, the most important first."""
    total = report.total
    backlog = f"{counted(total.backlog, 'target')} of {counted(total.tasks, 'task')}"
    yield f"Backlog at {moment(report.until_ms)}: {backlog}{_held(total)}."
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
    parts = [f"at the present rate it is sent in {span(total.done_s)}"] if total.done_s is not None else []
    if not parts:
        parts = ["at the present rate it is never sent"]
    if asked:
        parts.append(f"at {asked:,} targets/s in {span(total.done_at_capacity_s)}")
    growing = " More targets arrive than are sent: the backlog grows." if report.growing else ""
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}, if nothing more comes.{growing}"


def sections(report: BacklogReport) -> list[Section]:
    """Return the sections: a title and rows each."""
    asked = report.service.asked_capacity
    waits = [
        {"task": task.task, "app": task.app, "tier": task.tier, **_waits(task.waits)}
        for task in report.tasks
        if task.waits is not None
    ]
    return [
        ("Tiers", [_group(tier, asked) for tier in report.tiers]),
        ("Apps", [_group(app, asked) for app in report.apps]),
        ("Channels", [_group(channel, asked) for channel in report.channels]),
        ("Tasks with the largest backlog", [_task(task, asked) for task in report.tasks]),
        ("Waits of these tasks", waits),
        ("By age", _ages(report)),
        ("What holds it back", _causes(report)),
        ("What grew most", _grew(report)),
        ("Shares, wanted and actual", _shares(report)),
        ("Skewed partitions", _skewed(report)),
    ]


def _group(group: BacklogGroup, asked: int) -> Row:
    return {
        group.dimension: group.name,
        "backlog": f"{group.backlog:,}",
        "tasks": f"{group.tasks:,}",
        "arrive/s": f"{group.arrival_rate:,.1f}",
        "sent/s": f"{group.service_rate:,.1f}",
        "oldest": duration(group.oldest_s),
        "drain": ahead(group, group.drain_s),
        "done in": ahead(group, group.done_s),
        "done at capacity": ahead(group, group.done_at_capacity_s) if asked else NOTHING,
        "held back by": _held_back(group.held_back),
        **_waits(group.waits),
    }


def _task(task: TaskBacklog, asked: int) -> Row:
    return {
        "task": task.task,
        "app": task.app,
        "tier": task.tier,
        "channel": task.channel,
        "backlog": f"{task.backlog:,}",
        "arrive/s": f"{task.arrival_rate:,.1f}",
        "sent/s": f"{task.service_rate:,.1f}",
        "oldest": duration(task.oldest_s),
        "done in": NOTHING if task.held_by else _until(task.done_s),
        "done at capacity": NOTHING if task.held_by or not asked else _until(task.done_at_capacity_s),
        "workers": NOTHING if task.consumers is None else f"{task.consumers:,}",
        "held back by": task.held_by.replace("_", " ") or _held_back(task.held_back),
    }


def ahead(group: BacklogGroup, seconds: float | None) -> str:
    """Return the time until a group's backlog is gone. There is no forecast for a backlog that may not be sent now."""
    return NOTHING if group.backlog and group.backlog == group.held else _until(seconds)


def _waits(waits: Waits | None) -> Row:
    if waits is None:
        return {}
    if not waits.done:
        return {"wait p50": NOTHING, "p95": NOTHING, "retried": NOTHING, "not sent": NOTHING}
    return {
        "wait p50": duration(waits.p50_s),
        "p95": duration(waits.p95_s),
        "retried": f"{waits.retried:.1%}",
        "not sent": f"{waits.lost:.1%}",
    }


def _ages(report: BacklogReport) -> list[Row]:
    rows: list[Row] = [
        {"waiting for": band.label, "backlog": f"{band.backlog:,}", "sent in": _until(band.drain_s)}
        for band in report.ages
        if band.backlog
    ]
    later: Row = {"waiting for": "scheduled for later", "backlog": f"{report.scheduled:,}", "sent in": NOTHING}
    return [*rows, later] if report.scheduled else rows


def _causes(report: BacklogReport) -> list[Row]:
    if not report.total.backlog:
        return []
    return [
        {"cause": cause, "part": f"{part:.0%}", "meaning": MEANINGS[cause], "what helps": ADVICE[cause] or NOTHING}
        for cause, part in report.total.held_back.items()
        if part >= 0.005
    ]


def _grew(report: BacklogReport) -> list[Row]:
    return [
        {
            "what": each.dimension,
            "name": each.name,
            "grew by": f"{each.grew:,}",
            "to": f"{each.backlog:,}",
            "since": moment(each.since_ms),
        }
        for each in report.grew
    ]


def _shares(report: BacklogReport) -> list[Row]:
    return [
        {
            "pool": share.pool,
            "tier": share.tier,
            "cap/s": f"{share.cap:,}" if share.cap else NOTHING,
            "backlog": f"{share.backlog:,}",
            "wanted": f"{share.wanted:.1%}",
            "got": f"{share.got:.1%}",
            "sent": f"{share.done:,}",
        }
        for share in report.shares
        if share.backlog or share.done
    ]


def _skewed(report: BacklogReport) -> list[Row]:
    return [
        {
            "lane": each.lane.removeprefix("persistent://"),
            "entries": f"{each.entries:,}",
            "partitions": f"{each.partitions:,}",
            "fullest": f"{each.partition}",
            "holds": f"{each.most:,}",
            "times the mean": f"{each.times:.1f}",
            "workers at least": f"{each.consumers:,}",
        }
        for each in report.skewed
    ]


def _held_back(parts: Mapping[str, float]) -> str:
    """Return the two largest causes."""
    shown = [f"{cause} {part:.0%}" for cause, part in list(parts.items())[:2] if part >= 0.05]
    return ", ".join(shown) or NOTHING


def _until(seconds: float | None) -> str:
    """Format a duration; None is "never"."""
    return "never" if seconds is None else duration(seconds)


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
    """Return the report as a file of HTML."""
    pictures = [(title, svg) for title, svg in _pictures(report) if svg]
    tables = [(title, html.table(rows, _TEXTS)) for title, rows in sections(report) if rows]
    return html.page(f"Backlog, {moment(report.until_ms)}", _head(report), [*pictures, *tables])


def _pictures(report: BacklogReport) -> Iterator[tuple[str, str]]:
    yield "Backlog over time", pictures_of.backlog(report)
    yield "Arrived and sent", pictures_of.rates(report)
    yield "What holds it back", pictures_of.causes(report)
    yield "Shares, wanted and actual", pictures_of.shares(report)
    yield "Wait by app", pictures_of.waits(report)
    yield "Age of what waits", pictures_of.ages(report)


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
