"""How tables show fields, by name: header, format, and whether a column holds ids, figures or texts."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from dispatcher.model.values import NOTHING, count, duration, limit, moment, percent, text_of

Form = Callable[[Any], str]


class Kind(Enum):
    """The kinds of values in a column."""

    ID = "id"
    """Names: left-aligned, never broken, omitted last."""
    FIGURE = "figure"
    """Numbers, times and durations: right-aligned, never broken."""
    TEXT = "text"
    """Sentences: wrapped between words."""
    BAR = "bar"
    """Progress bars: shrunk first."""


IDS = frozenset(
    (
        *("id", "task", "app", "target", "worker", "name", "setting", "figure", "field", "pool", "lane", "tier"),
        *("channel", "replay"),
    )
)
"""Columns with names that identify a row, and that a user types to name it."""
MOMENTS = frozenset(
    (
        *("created_ms", "start_ms", "expires_ms", "first_outcome_ms", "finished_ms", "started_ms", "retry_ms", "at_ms"),
        *("first_ms", "last_ms", "since_ms", "until_ms"),
    )
)
"""Wall-clock times in ms; 0 for none. Other fields that end in _ms are durations."""
LIMITS = frozenset(("cap", "cap_burst", "capacity", "capacity_burst", "task_limit", "target_limit", "partitions"))
"""Limits, where 0 means no limit."""
PLAIN = frozenset(("pid", "port", "ports", "metrics_port", "epoch", "form", "seed", "edit", "latest"))
"""Numbers that identify something and have no separators."""
PARTS = frozenset(("wanted", "actual", "used"))
"""Fractions, from 0 to 1."""
HEADERS = {
    "rate": "targets/s",
    "arrival_rate": "arriving/s",
    "eta_s": "ETA",
    "drain_s": "drained in",
    "seen_s_ago": "seen ago",
    "created_ms": "accepted",
    "start_ms": "starts",
    "expires_ms": "expires",
    "first_outcome_ms": "first outcome",
    "finished_ms": "ended",
    "started_ms": "started",
    "expected_targets": "expected",
    "seconds": "took",
}
_FIGURE = re.compile(
    r"-|never|[-+]?\d[\d,.:]*(?:e[-+]?\d+)?\s?[%\w/]*(?:\s\d+\s?[smhd])?|\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?"
)


def header_of(name: str) -> str:
    """Return the header of a column, or the label of a value."""
    outer, dot, inner = name.rpartition(".")
    known = HEADERS.get(inner)
    if known is None:
        is_time = inner.endswith(("_ms", "_s"))
        known = (inner.rpartition("_")[0] if is_time else inner).replace("_", " ")
    return f"{outer.replace('_', ' ')}{dot}{known}"


def form_of(name: str) -> Form:
    """Return the format of a field's values. `name`: `outer.inner` for a nested field."""
    *outer, name = name.split(".")
    if PLAIN.intersection(outer):
        return _FORMS[next(each for each in outer if each in PLAIN)]
    if name in MOMENTS:
        return _numeric(local_moment)
    if name.endswith("_ms"):
        return _numeric(lambda value: duration(value / 1000))
    if name.endswith("_s"):
        return _numeric(duration)
    return _FORMS.get(name, text_of)


def _numeric(form: Form) -> Form:
    """Format numbers only; leave other values (None, and texts that are already formatted) to text_of."""
    return lambda value: form(value) if isinstance(value, int | float) else text_of(value)


_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(LIMITS, _numeric(limit)),
    **dict.fromkeys(PLAIN, _numeric(str)),
    **dict.fromkeys(PARTS, _numeric(percent)),
    **dict.fromkeys(("rate", "arrival_rate", "spare"), _numeric(count)),
    **dict.fromkeys(("seconds", "seen_s_ago"), _numeric(duration)),
    "expected_targets": _numeric(lambda value: NOTHING if value < 0 else count(value)),
}


def kind_of(name: str, texts: list[str]) -> Kind:
    """Return the kind of a column, by its name or else by its values."""
    if name in IDS:
        return Kind.ID
    written = [text for text in texts if text != NOTHING]
    if written:
        return Kind.FIGURE if all(map(_FIGURE.fullmatch, written)) else Kind.TEXT
    if form_of(name) is not text_of:
        return Kind.FIGURE
    return Kind.TEXT


# ------------------------------------------------------------- times in the time zone of this machine
def local_now() -> datetime:
    """Return the present time in the time zone of this machine."""
    return datetime.now(UTC).astimezone()


def local_moment(wall_ms: float) -> str:
    """Return the time in the zone of this machine: 14:05:10, with the date if it is not today."""
    return moment(wall_ms, local_now())


def zone_note() -> str:
    """Return a note that names the time zone of all times shown."""
    return f"times in {local_now().tzname()}"
