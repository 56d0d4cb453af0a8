"""Look for faults of a page with axe-core."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page

WCAG = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"]},
    "resultTypes": ["violations"],
}


ROWS = 5
"""Rows of each table that are looked at. One test looks at all 50, which takes four times as long."""


def violations(page: Page, rows: int = ROWS) -> list[str]:
    """Return where a page breaks WCAG 2.2, levels A and AA. rows: of each table."""
    below = {"exclude": [[f"tbody tr:nth-child(n + {rows + 1})"]]}
    found: list[dict[str, Any]] = Axe().run(page, below, WCAG).response["violations"]
    return [
        f"{page.url}: {rule['id']}: {node['html'][:200]} {' '.join(check['message'] for check in node['any'])[:200]}"
        for rule in found
        for node in rule["nodes"]
    ]
