"""Limits."""

from typing import Any

from web.console.page import Page, Visit


def read(_visit: Visit) -> dict[str, Any]:
    return {"rows": []}


PAGE = Page(name="limits", path="/limits", title="Limits", action="service.show", read=read)
