"""A browser for tests: the chromium of this machine, and pages that complain of what a person would not see."""

from collections.abc import Iterator
from contextlib import contextmanager
from shutil import which
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from backends.extras import Missing
from tests.browser.scene import Scene
from tests.conftest import skipped_without

WITHIN_MS = 10_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of one file: playwright keeps the event loop of its thread while it runs."""
    with skipped_without("chromium"):
        path = program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


def program() -> str:
    """Return the path of chromium. Raises Missing."""
    if path := which("chromium"):
        return path
    raise Missing("There is no chromium.", "Install Debian's package chromium: bash scripts/setup.sh chromium")


class Opened:
    """A page, and what was heard of it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        """Errors of scripts, and of the policy that forbids them."""
        self.asked: list[str] = []
        """Addresses that it asked for."""
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning") and "status of" not in message.text:
            self.complaints.append(message.text)

    def go(self, path: str) -> int:
        """Go to a page; return the status."""
        answer = self.page.goto(self.address + path)
        assert answer is not None
        return answer.status


@contextmanager
def opened(browser: Browser, scene: Scene, *, signed_in: bool = True, **given: Any) -> Iterator[Opened]:
    """Open an empty page. given: of the context, such as color_scheme."""
    context = browser.new_context(reduced_motion="reduce", **given)
    context.set_default_timeout(WITHIN_MS)
    if signed_in:
        context.add_cookies([scene.cookie()])  # type: ignore[list-item]
    try:
        yield Opened(context.new_page(), scene.address)
    finally:
        context.close()
