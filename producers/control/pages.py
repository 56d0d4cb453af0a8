"""Several pages of a list of tasks as one list."""

from collections.abc import Callable

from dispatcher.model.view import TaskView

_PAGE = 500


TaskPage = tuple[list[TaskView], str | None]
"""Tasks, and the cursor of the next page; None after the last."""


def read_pages(page: Callable[..., TaskPage], limit: int | None = None, cursor: str | None = None) -> TaskPage:
    """Return at most `limit` tasks (None: all) from a cursor on. page: takes `limit` and `cursor`, as
    `PushClient.task_page`."""
    views: list[TaskView] = []
    while limit is None or len(views) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(views))
        found, cursor = page(limit=size, cursor=cursor)
        views += found
        if cursor is None:
            break
    return views, cursor
