"""Render a run as one self-contained HTML file: no network, no script."""

from html import escape
from typing import Any

from simulator.show.pictures import shares, task_shares, timeline
from simulator.show.tables import TIERS, note, sections
from simulator.verdict.result import Result
from spark_jobs.backlog.html_page import html_table, whole_page

FEW_TASKS = 24
"""The maximum number of tasks to show separately in a stacked picture."""
STYLE = """
:root{color-scheme:light dark;--ground:#f4f6f9;--card:#fff;--ink:#1c2430;--soft:#5b6675;--line:#dfe4ea;--good:#1d7a3e;
--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--card:#141a22;--ink:#eef2f7;--soft:#a5b0bf;--line:#2d3744;
--good:#67c78a;--bad:#ff8a80}}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:920px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.7rem;margin:0}h2{font-size:1.15rem;margin:28px 0 8px}p{margin:6px 0}
.soft{color:var(--soft)}.good{color:var(--good)}.bad{color:var(--bad)}.verdict{font-weight:600}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px;overflow-x:auto}
svg{max-width:100%;height:auto;display:block}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:5px 12px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}tr:last-child td{border-bottom:0}
td{font-variant-numeric:tabular-nums}code{font-size:.9em}
"""


def page(result: Result) -> str:
    """Return the whole file."""
    pictures = [("Shares over time", shares(result))]
    if len(result.tasks) <= FEW_TASKS:
        pictures.append(("Tasks on top of each other", task_shares(result)))
    pictures.append(("Tasks over time", timeline(result)))
    tables = [(title, html_table(rows, _cell) + _below(title, result)) for title, rows in sections(result) if rows]
    return whole_page(f"{result.scenario}, seed {result.seed}", STYLE, _head(result), [*pictures, *tables])


def _head(result: Result) -> str:
    good, bad = "Every law held, and every expectation was met", "A law was violated or an expectation was not met"
    verdict = good if result.good else bad
    use = "" if result.use is None else f" {result.use:.1%} of the capacity was used while there was demand."
    return (
        f"<h1>{escape(result.scenario)}</h1>\n<p>{escape(result.about)}</p>\n"
        f'<p class="verdict {"good" if result.good else "bad"}">{verdict}.</p>\n'
        f'<p class="soft">{result.ran_s:,.1f} s of virtual time.{use} '
        f"Run again: <code>{escape(result.replay)}</code></p>"
    )


def _below(title: str, result: Result) -> str:
    text = note(result) if title == TIERS else ""
    return f'\n<p class="soft">{escape(text)}</p>' if text else ""


def _cell(_name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f'<td class="{"good" if value else "bad"}">{"yes" if value else "no"}</td>'
    return f"<td>{escape(str(value))}</td>"
