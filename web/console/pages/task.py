"""Task."""

from typing import Any

from web.console.page import Page, Visit


def read(_visit: Visit) -> dict[str, Any]:
    return {"rows": []}


PAGE = Page(name="task", path="/tasks/{id}", title="Task", action="tasks.show", read=read, in_menu=False)
