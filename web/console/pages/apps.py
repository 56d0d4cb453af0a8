"""Apps."""

from typing import Any

from web.console.page import Page, Visit


def read(_visit: Visit) -> dict[str, Any]:
    return {"rows": []}


PAGE = Page(name="apps", path="/apps", title="Apps", action="keys.list", read=read)
