"""Audit."""

from typing import Any

from web.console.page import Page, Visit


def read(_visit: Visit) -> dict[str, Any]:
    return {"rows": []}


PAGE = Page(name="audit", path="/audit", title="Audit", action="audit.list", read=read)
