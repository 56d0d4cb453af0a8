"""Work by hand: a task is paused by keyboard alone, and without script."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.accessible import violations
from tests.browser.conftest import Opened, opened
from tests.browser.scene import IN_REDIS, Scene, scene

TASK = IN_REDIS[0]
LIVE = 500
"""Tasks: a forecast for 100,000 takes its time."""


@pytest.fixture
def service() -> Iterator[Scene]:
    with scene(LIVE) as made:
        yield made


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until what is selected has the focus."""
    for _ in range(120):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {selector} on {page.url}")


def enter(page: Page, selector: str) -> None:
    """Press Enter on a button, and wait for the page that follows."""
    tab_to(page, selector)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def is_paused(service: Scene) -> bool:
    return service.door.world.service.registry.tasks.task(TASK).state == "paused"  # type: ignore[union-attr]


def number(page: Page) -> str:
    """Return what is to be typed: a million targets and more are not paused by a slip of the hand."""
    return re.sub(r"[^\d,]", "", page.locator("label:has(input[name=typed])").inner_text())


def look_for_violations(tab: Opened) -> None:
    assert not violations(tab.page)
    assert not tab.complaints


def test_task_is_paused_by_keyboard_alone(chromium: Browser, service: Scene) -> None:
    with opened(chromium, service, signed_in=False) as tab:
        page = tab.page
        tab.go("/")
        tab_to(page, "input[name=key]")
        page.keyboard.type(service.key)
        enter(page, "input[name=key]")
        assert page.url == f"{service.address}/"
        page.keyboard.press("g")
        with page.expect_navigation():
            page.keyboard.press("t")
        assert page.url == f"{service.address}/tasks"
        page.keyboard.press("/")
        page.keyboard.type(TASK)
        with page.expect_navigation():
            page.keyboard.press("Enter")
        page.keyboard.press("j")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert page.url == f"{service.address}/tasks/{TASK}"
        enter(page, "button[name=do][value=pause]")
        look_for_violations(tab)
        assert "Pause" in page.inner_text("h1")
        assert not is_paused(service), "a preview changes nothing"
        tab_to(page, "input[name=typed]")
        page.keyboard.type(number(page))
        enter(page, "input[name=typed]")
        look_for_violations(tab)
        service.door.world.service.fold()
        assert is_paused(service)


def test_task_is_paused_without_script(chromium: Browser, service: Scene) -> None:
    with opened(chromium, service, signed_in=False, java_script_enabled=False) as tab:
        page = tab.page
        tab.go(f"/tasks/{TASK}")
        page.get_by_label("Key").fill(service.key)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"**/tasks/{TASK}")
        page.locator("button[name=do][value=pause]").first.click()
        assert not is_paused(service)
        page.locator("input[name=typed]").fill(number(page))
        page.locator("main form:has([name=confirm]) button").first.click()
        page.wait_for_load_state()
        service.door.world.service.fold()
        assert is_paused(service)


def test_help_and_search_have_keys(chromium: Browser, service: Scene) -> None:
    with opened(chromium, service) as tab:
        tab.go("/")
        tab.page.keyboard.press("?")
        assert tab.page.locator("dialog[open]").count() == 1
        look_for_violations(tab)
        tab.page.keyboard.press("Escape")
        for key, path in (("o", "/"), ("l", "/limits"), ("w", "/workers"), ("d", "/dead-letters"), ("u", "/audit")):
            tab.page.keyboard.press("g")
            with tab.page.expect_navigation():
                tab.page.keyboard.press(key)
            assert tab.page.url == service.address + path


def test_form_is_sent_once_by_a_double_click(chromium: Browser, service: Scene) -> None:
    twice = """form => [1, 2].map(() => form.dispatchEvent(new Event("submit", {bubbles: true, cancelable: true})))"""
    with opened(chromium, service) as tab:
        tab.go("/apps")
        assert tab.page.locator("form[action='/apps/key']").evaluate(twice) == [True, False]


def test_plan_is_there_again_on_the_way_back(chromium: Browser, service: Scene) -> None:
    with opened(chromium, service) as tab:
        page = tab.page
        tab.go(f"/tasks/{TASK}")
        with page.expect_navigation():
            page.locator("button[name=do][value=pause]").first.click()
        tab.go("/tasks")
        page.go_back()
        page.locator("input[name=typed]").fill(number(page))
        with page.expect_navigation():
            page.locator("main form:has([name=confirm]) button").first.click()
        service.door.world.service.fold()
        assert is_paused(service)
