"""Render a run as one self-contained HTML file."""

from html import escape

from fairlane.pages import page as html
from lab.simulator.findings.result import Result
from lab.simulator.show.pictures import shares, task_shares, timeline
from lab.simulator.show.tables import TIERS, note, sections

FEW_TASKS = 24
"""The maximum number of tasks to show separately in a stacked picture."""
_PROSE = ("what", "counts")
"""The columns of text."""


def page(result: Result) -> str:
    """Return a run as an HTML file."""
    pictures = [("Shares over time", shares(result))]
    if len(result.tasks) <= FEW_TASKS:
        pictures.append(("Tasks on top of each other", task_shares(result)))
    pictures.append(("Tasks over time", timeline(result)))
    tables = [(title, html.table(rows, _PROSE) + _below(title, result)) for title, rows in sections(result) if rows]
    return html.page(f"{result.scenario}, seed {result.seed}", _head(result), [*pictures, *tables])


def _head(result: Result) -> str:
    verdict = "Every law held" if result.good else "A law was violated"
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
