"""Render the report on the backlog as one self-contained HTML file: no network, no script."""

from collections.abc import Iterator
from html import escape

from dispatcher.model.shown import escaped
from spark_jobs.backlog import pictures as backlog_pictures
from spark_jobs.backlog.html_page import html_table, whole_page
from spark_jobs.backlog.report import BacklogReport, span
from spark_jobs.backlog.tables import ahead, moment, period, sections, sentences

_WORDS = ("held back by", "meaning", "what helps")
"""The columns of text."""
_LONG = 32
"""The length from which on a name is broken."""
STYLE = """
:root{color-scheme:light dark;--ground:#f4f6f9;--card:#fff;--ink:#1c2430;--soft:#5b6675;--line:#dfe4ea}
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--card:#141a22;--ink:#eef2f7;--soft:#a5b0bf;--line:#2d3744}}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1000px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.7rem;margin:0}h2{font-size:1.15rem;margin:28px 0 8px}p{margin:6px 0}.soft{color:var(--soft)}
section{border:1px solid var(--line);border-radius:8px;padding:12px;overflow-x:auto;
box-sizing:border-box;width:max-content;min-width:100%;max-width:calc(100vw - 32px);margin-left:50%;
transform:translateX(-50%);
background:linear-gradient(to left,var(--card) 40%,transparent) right/40px 100% no-repeat local,
linear-gradient(to left,var(--line),transparent) right/18px 100% no-repeat,var(--card)}
svg{max-width:100%;height:auto;display:block}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:18px 0}
dl div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px}
dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.35rem;font-weight:600;font-variant-numeric:tabular-nums}
table{border-collapse:collapse;width:100%;font-size:.86rem}
th,td{text-align:left;padding:5px 12px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}tr:last-child td{border-bottom:0}
td{font-variant-numeric:tabular-nums;white-space:nowrap}
td.words{white-space:normal;min-width:16ch;max-width:60ch}td.long{white-space:normal;overflow-wrap:anywhere;min-width:26ch}
"""


def page(report: BacklogReport) -> str:
    """Return the whole file."""
    pictures = [(title, svg) for title, svg in _pictures(report) if svg]
    tables = [(title, html_table(rows, _cell)) for title, rows in sections(report) if rows]
    return whole_page(f"Backlog, {moment(report.until_ms)}", STYLE, _head(report), [*pictures, *tables])


def _pictures(report: BacklogReport) -> Iterator[tuple[str, str]]:
    yield "Backlog over time", backlog_pictures.backlog(report)
    yield "Arrived and sent", backlog_pictures.rates(report)
    yield "What holds it back", backlog_pictures.causes(report)
    yield "Shares, wanted and actual", backlog_pictures.shares(report)
    yield "Wait by app", backlog_pictures.waits(report)
    yield "Age of what waits", backlog_pictures.ages(report)


def _head(report: BacklogReport) -> str:
    told = "".join(f"<p>{escape(line)}</p>\n" for line in sentences(report))
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in _figures(report))
    rows = "no outcome journal" if report.journal_rows is None else f"{report.journal_rows:,} outcomes of the journal"
    return (
        f'<h1>Backlog</h1>\n<p class="soft">{period(report.from_ms, report.until_ms)}, from '
        f"{report.snapshots:,} snapshot{'s' * (report.snapshots != 1)} and {rows}.</p>\n<dl>{figures}</dl>\n{told}"
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


def _cell(name: str, value: str) -> str:
    """Return a table cell. Text breaks between words; a single name breaks only if it is very long."""
    kind = ' class="words"' if name in _WORDS else ' class="long"' if len(value) > _LONG else ""
    return f"<td{kind}>{escape(escaped(value))}</td>"
