"""Workers."""

from typing import Any

from web.console.page import Page, Visit


def read(_visit: Visit) -> dict[str, Any]:
    return {"rows": []}


PAGE = Page(name="workers", path="/workers", title="Workers", action="workers.list", read=read)
