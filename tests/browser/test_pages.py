"""Every page in every state: it can be read by everyone, and says what is so."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.accessible import ROWS, violations
from tests.browser.conftest import Opened, opened
from tests.browser.scene import IN_REDIS, MANY, Scene, scene
from tests.integration.worker_crew import eventually
from web.console.pages import PAGES

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
    "dark-phone": {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}},
}
PATHS = [page.path.replace("{id}", IN_REDIS[0]) for page in PAGES if page.name != "runbooks"]
"""Pages with figures."""
GREYED_S = 10.0
look = pytest.mark.parametrize("look", LOOKS)


@pytest.fixture(scope="module")
def empty() -> Iterator[Scene]:
    with scene(0) as made:
        yield made


@pytest.fixture(scope="module")
def full() -> Iterator[Scene]:
    with scene(MANY) as made:
        yield made


def looked_at(
    tab: Opened, paths: list[str], check: Callable[[str, str], None] = lambda _, __: None, rows: int = ROWS
) -> None:
    """Hold pages to what must be so of all; check: gets the path and the text of the page; rows: of each table."""
    wrong: list[str] = []
    for path in paths:
        status = tab.go(path)
        assert status == 200, f"{path}: {status}"
        assert tab.page.locator("h1").count() == 1, path
        width = tab.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        wrong += [f"{path}: wider than the window by {width}"] if width > 0 else []
        wrong += violations(tab.page, rows)
        check(path, tab.page.inner_text("main"))
    assert not wrong, "\n".join(wrong)
    assert not tab.complaints
    assert not [address for address in tab.asked if not address.startswith(tab.address)]


@look
def test_empty_service_says_what_would_be_there(chromium: Browser, empty: Scene, look: str) -> None:
    with opened(chromium, empty, **LOOKS[look]) as tab:
        looked_at(tab, [path for path in PATHS if IN_REDIS[0] not in path])


@look
def test_pages_of_many_tasks_have_fifty_rows(chromium: Browser, full: Scene, look: str) -> None:
    with opened(chromium, full, **LOOKS[look]) as tab:
        looked_at(tab, PATHS, rows=50)
        tab.go("/tasks")
        assert tab.page.locator("main tbody tr").count() == 50
        assert f"{MANY:,}" in tab.page.inner_text("main")


@look
def test_pages_before_all_tasks_were_read_say_so(chromium: Browser, look: str) -> None:
    with scene(1_000) as loading, opened(chromium, loading, **LOOKS[look]) as tab:
        loading.load(420, 1_000)
        looked_at(tab, PATHS)
        for path in ("/", "/tasks"):
            tab.go(path)
            assert "420 of 1,000" in tab.page.inner_text("main"), path


@look
@pytest.mark.parametrize("lose", [Scene.lose_redis, Scene.lose_pulsar])
def test_pages_without_a_server_keep_their_figures_and_say_their_age(
    chromium: Browser, look: str, lose: Callable[[Scene], None]
) -> None:
    with scene(1_000) as lost, opened(chromium, lost, **LOOKS[look]) as tab:
        for path in PATHS:
            tab.go(path)
        lose(lost)
        read_anew = ("/tasks", PATHS[-1])  # the board has rows for a while yet, and the last page was read last
        eventually(lambda: all(shows_old_figures(tab, path) for path in read_anew), 30, "figures are old")

        def check(path: str, text: str) -> None:
            assert tab.page.locator("main > .trouble").count() == 1, path
            is_current = path == "/workers" and lose is Scene.lose_pulsar  # heartbeats are in Redis
            assert tab.page.locator("main.stale").count() == (0 if is_current else 1), path
            assert is_current or "old" in text, path

        looked_at(tab, PATHS, check)


def shows_old_figures(tab: Opened, path: str) -> bool:
    tab.go(path)
    return tab.page.locator("main.stale").count() == 1


def test_open_page_says_that_its_figures_are_old_until_the_server_answers_again(chromium: Browser) -> None:
    with scene(10) as served, opened(chromium, served) as tab:
        tab.go("/tasks")
        tab.page.route("**/tasks", lambda route: route.abort())
        tab.page.locator("main.stale").wait_for()
        assert re.fullmatch(r"Old, of \d\d:\d\d:\d\d UTC", tab.page.inner_text("#live").strip())
        tab.page.unroute("**/tasks")
        tab.page.locator("main:not(.stale)").wait_for()
        assert tab.page.inner_text("#live").strip() == "Live"


@look
def test_pages_of_which_nothing_is_known_are_not_blank(chromium: Browser, look: str) -> None:
    with scene(10) as lost, opened(chromium, lost, **LOOKS[look]) as tab:
        lost.lose_redis()
        looked_at(tab, PATHS)


@look
def test_pages_beside_the_menu_can_be_read_too(chromium: Browser, full: Scene, look: str) -> None:
    with opened(chromium, full, **LOOKS[look]) as tab:
        wrong: list[str] = []
        for path, status in (("/sign-in", 200), ("/runbooks", 200), ("/nowhere", 404), ("/tasks?sort=nonsense", 422)):
            assert tab.go(path) == status, path
            wrong += violations(tab.page)
        assert not wrong, "\n".join(wrong)
