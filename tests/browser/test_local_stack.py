"""The console over a real Pulsar and Redis: from the link of the terminal to a task that was paused."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from dispatcher.model.task import PushTask
from fairlane.settings import Settings
from producers.client import PushClient
from producers.desk.front_door import FrontDoor
from tests.browser.accessible import violations
from tests.browser.conftest import WITHIN_MS, Opened
from tests.browser.scene import served
from tests.integration.worker_crew import crew, eventually
from web.console.pages import PAGES


@pytest.fixture
def client(fresh_settings: Settings, tmp_path: Path) -> Iterator[PushClient]:
    """A client of a service with a worker."""
    with crew(fresh_settings, tmp_path, "w1") as members, PushClient.connect(fresh_settings) as made:
        members.await_view()
        yield made


def test_operator_of_the_machine_pauses_a_task(chromium: Browser, fresh_settings: Settings, client: PushClient) -> None:
    client.set_capacity(10)
    task = PushTask(id="sale", app="shop", tier="high", channel="log", message={"title": "Hi"})
    client.submit(task, [f"t-{number}" for number in range(2_000)])
    context = chromium.new_context(reduced_motion="reduce")
    context.set_default_timeout(WITHIN_MS)
    with closing(context), FrontDoor(fresh_settings) as door, served(door, is_local=True) as address:
        tab = Opened(context.new_page(), address)
        tab.go(f"/sign-in/{door.sessions.offer()}")
        with tab.page.expect_navigation():
            tab.page.get_by_role("button", name="Sign in").click()
        eventually(lambda: "sale" in _main(tab, "/tasks"), 30, "it is listed")
        for page in PAGES:
            assert tab.go(page.path.replace("{id}", "sale")) == 200, page.path
            assert not violations(tab.page)
        tab.go("/tasks/sale")
        with tab.page.expect_navigation():
            tab.page.locator("button[name=do][value=pause]").first.click()
        with tab.page.expect_navigation():
            tab.page.locator("main form:has([name=confirm]) button").first.click()
        eventually(lambda: client.task("sale").progress().state == "paused", 30, "it is paused")
        assert not tab.complaints
    client.task("sale").cancel()


def _main(tab: Opened, path: str) -> str:
    tab.go(path)
    return tab.page.inner_text("main")
