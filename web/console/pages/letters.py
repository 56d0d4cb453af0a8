"""Dead letters."""

from typing import Any

from web.console.page import Page, Visit


def read(_visit: Visit) -> dict[str, Any]:
    return {"rows": []}


PAGE = Page(name="letters", path="/dead-letters", title="Dead letters", action="letters.list", read=read)
