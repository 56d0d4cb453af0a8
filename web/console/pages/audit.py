"""Audit: who did what before this began?"""

import re
from typing import Any

from dispatcher.model.errors import InvalidInput
from fairlane.figures.audit_rows import audit_fields
from web.console.changed import setting_text
from web.console.page import Page, Visit

ROWS = 50
ROWS_OF_CSV = 10_000
LOOKS = 2_000
"""Changes that are looked at for one page; the next one goes on behind them."""
_PLACE = re.compile(r"(\d{1,15})-(\d{1,6})", re.ASCII)


def read(visit: Visit) -> dict[str, Any]:
    asked = visit.query
    rows, older = list[dict[str, Any]](), ""
    most, looks = (ROWS_OF_CSV, ROWS_OF_CSV) if "format" in asked else (ROWS, LOOKS)
    at_ms, seen = before = _place(asked.get("before", ""))
    client = visit.desks.service.client("audit.list")
    trail = client.audit(looks + 1, asked.get("app"), before=before if at_ms else None)
    for number, entry in enumerate(trail):
        if len(rows) == most or number == looks:
            older = f"{at_ms}-{seen}"
            break
        at_ms, seen = entry.at_ms, seen + 1 if entry.at_ms == at_ms else 1
        fields = audit_fields(entry)
        if _is_asked(fields, asked.get("by", ""), asked.get("q", "")):
            rows.append(fields)
    return {"rows": rows, "older": {**asked, "before": older} if older else None}


def _is_asked(fields: dict[str, Any], person: str, text: str) -> bool:
    return person.casefold() in fields["by"].casefold() and (
        not text or text.casefold() in " ".join([setting_text(fields["field"]), *map(str, fields.values())]).casefold()
    )


def _place(text: str) -> tuple[int, int]:
    """Return the time of the last change that was seen, and how many of that time were."""
    place = _PLACE.fullmatch(text or "0-0")
    if place is None:
        raise InvalidInput(f"before: is {text[:100]!r}, which is no place in the audit.", "Leave it out.")
    return int(place[1]), int(place[2])


PAGE = Page(name="audit", path="/audit", title="Audit", action="audit.list", read=read)
