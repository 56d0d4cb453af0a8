"""Render templates: what is written in them, and how figures are."""

import re
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import DictLoader, Environment, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from dispatcher.analysis.failing import fails_by, is_incomplete, trouble
from dispatcher.analysis.verdict import limits_at
from dispatcher.analysis.what_if import UNKNOWN, WHY_UNKNOWN
from dispatcher.analysis.why import pool_text
from dispatcher.model.pools import Pool
from dispatcher.model.values import NOTHING, count, counted, duration, moment, percent
from dispatcher.model.view import ENDED_STATES, TaskView
from fairlane import __version__
from web.console.changed import setting_text, value_text
from web.console.given import label


def _ago(ms: float) -> str:
    return f"{duration(max(0.0, time.time() - ms / 1000))} ago" if ms else NOTHING


def _moment(ms: float) -> str:
    """Return a time in UTC, with its date if that is not today."""
    return moment(ms, datetime.now(UTC))


def _limits_at(pool: str, task: TaskView | None = None) -> str:
    """Return where a pool is changed; task: which page is shown after it."""
    at = limits_at(Pool.parse(pool) or Pool())
    return at.replace("#", f"&task={quote(task.id)}#").replace("?&", "?") if task else at


def _soon(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"in {duration(seconds)}"


def _end(seconds: float | None) -> str:
    """Return the end of a task by a forecast."""
    return "no end" if seconds is None else _soon(seconds) if seconds else UNKNOWN


@pass_context  # else that of a constant would be computed once
def _clock(_: Context, seconds: float | None) -> str:
    """Return the time after these seconds, as `_moment`."""
    return NOTHING if seconds is None else _moment(1000 * (time.time() + seconds))


def _code(text: str) -> Markup:
    """Return a text whose parts between backticks are set as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _done(task: TaskView) -> int:
    """Return the targets that count as progress: those with an outcome, but of a task that was ended, those sent."""
    is_cut_off = task.state in ENDED_STATES and task.state != "completed"
    return task.targets.sent if is_cut_off else task.targets.total - task.targets.pending


@cache
def environment() -> Environment:
    """Return the templates as they are when this is first called: newer files do not fit a process that runs."""
    read = {path.name: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "templates").iterdir()}
    found = Environment(
        loader=DictLoader(read), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= {
        "count": count, "duration": duration, "moment": _moment, "percent": percent, "ago": _ago, "soon": _soon,
        "end": _end, "clock": _clock, "pool": pool_text, "limits_at": _limits_at, "label": label,
        "code": _code, "done": _done, "counted": counted, "setting": setting_text, "value": value_text,
    }  # fmt: skip
    found.filters["fails_by"] = lambda task: fails_by(task, round(time.time() * 1000))
    found.filters["trouble"] = lambda task: trouble(task, task.eta_s, round(time.time() * 1000))
    found.filters["is_incomplete"] = is_incomplete
    found.globals |= {"version": __version__, "clock": _clock, "WHY_UNKNOWN": WHY_UNKNOWN}
    for name, file in (("ui", "macros"), ("steer", "steering")):
        found.globals[name] = found.get_template(f"{file}.html").module
    for name in read:
        found.get_template(name)  # compiled now, and not while somebody waits for the page
    return found


def render(name: str, context: dict[str, Any]) -> str:
    """Return a template as text. It raises for a name that the context lacks."""
    return environment().get_template(f"{name}.html").render(context)
