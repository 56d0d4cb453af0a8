"""Several pages of a list of tasks as one list."""

from typing import Protocol

from dispatcher.model.view import TaskView

_PAGE = 500


class TaskPages(Protocol):
    """A call that returns one page and the cursor of the next (None after the last), as `PushClient.task_page`."""

    def __call__(self, *, limit: int, cursor: str | None) -> tuple[list[TaskView], str | None]: ...


def read_pages(
    page: TaskPages, limit: int | None = None, cursor: str | None = None
) -> tuple[list[TaskView], str | None]:
    """Return at most `limit` tasks (None: all) from a cursor on, and the cursor that continues them."""
    views: list[TaskView] = []
    while limit is None or len(views) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(views))
        found, cursor = page(limit=size, cursor=cursor)
        views += found
        if cursor is None:
            break
    return views, cursor
