"""The report on the backlog, as a browser shows it from a file."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

pytest.importorskip("pyarrow")

from spark_jobs.backlog.facts import Fields
from spark_jobs.backlog.job import report_of
from spark_jobs.backlog.page import page
from tests.browser.accessible import violations
from tests.unit.spark_jobs.backlog_facts import FACTS, OPTIONS
from tests.unit.spark_jobs.backlog_rows import ms

LONG = "a-name-of-a-hundred-characters-" * 3


def named(rows: list[Fields]) -> list[Fields]:
    """Give rows long names of tasks and apps."""
    return [{**row, "task": f"{LONG}-{row['task']}", "app": f"{LONG}-{row['app']}"} for row in rows]


NAMED = FACTS._replace(tasks=named(FACTS.tasks), waited=named(FACTS.waited))


@pytest.mark.parametrize("width", [1_200, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_report_fits_the_window_and_asks_for_nothing(
    chromium: Browser, tmp_path: Path, width: int, theme: Literal["light", "dark"]
) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(report_of(NAMED, OPTIONS, ms(25))))
    shown, asked = chromium.new_page(viewport={"width": width, "height": 844}, color_scheme=theme), list[str]()
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(file.as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert not violations(shown)
    assert asked == [file.as_uri()]
    shown.close()
