"""Overview."""

from typing import Any

from web.console.page import Page, Visit


def read(_visit: Visit) -> dict[str, Any]:
    return {"rows": []}


PAGE = Page(name="overview", path="/", title="Overview", action="tasks.list", read=read)
