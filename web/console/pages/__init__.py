"""The pages, in the order of the navigation."""

from web.console.page import Page
from web.console.pages import apps, audit, letters, limits, overview, task, tasks, workers

_RUNBOOKS = Page(
    name="runbooks", path="/runbooks", title="Runbooks", action="service.show", in_menu=False,
    read=lambda _: {"still": True},
)  # fmt: skip
PAGES: tuple[Page, ...] = (
    overview.PAGE, tasks.PAGE, task.PAGE, limits.PAGE, workers.PAGE, letters.PAGE, apps.PAGE, audit.PAGE, _RUNBOOKS,
)  # fmt: skip
