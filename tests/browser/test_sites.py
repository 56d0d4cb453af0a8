"""The console beside other sites, and over time: no other host, no other site's orders, no growth."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, CDPSession

from tests.browser.conftest import Opened, opened
from tests.browser.scene import IN_REDIS, MANY, Scene, scene

TASK = IN_REDIS[0]
UPDATES = 7
"""Updates of a live page, one every 2 s."""


@pytest.fixture(scope="module")
def service() -> Iterator[Scene]:
    with scene(1_000) as made:
        yield made


@pytest.fixture(scope="module")
def full() -> Iterator[Scene]:
    with scene(MANY) as made:
        yield made


@contextmanager
def site(page: str) -> Iterator[int]:
    """Serve one page at every address of another port of this host; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_form_of_another_origin_changes_nothing(chromium: Browser, service: Scene, host: str) -> None:
    """Another port of the same host is sent the cookie: only its origin tells them apart."""
    fields = "".join(
        f'<input name="{name}" value="{value}">' for name, value in (("do", "cancel"), ("confirm", "1"), ("typed", "1"))
    )
    action = f"{service.address}/tasks/{TASK}/change"
    evil = f'<form method="post" action="{action}">{fields}<button>Win a prize</button></form>'
    with site(evil) as port, opened(chromium, service) as tab:
        tab.page.goto(f"http://{host}:{port}/")
        with tab.page.expect_response(action) as answered:
            tab.page.get_by_role("button").click()
        assert answered.value.status in (401, 403)
        sent = tab.page.evaluate(
            "async ([to, body]) => { try { return (await fetch(to, {method: 'POST', body, mode: 'no-cors',"
            " credentials: 'include'})).type } catch { return 'refused' } }",
            [action, "do=cancel&confirm=1"],
        )
        assert sent in ("opaque", "refused", "basic")
    service.door.world.service.fold()
    task = service.door.world.service.registry.tasks.task(TASK)
    assert task is not None
    assert task.state == "running"


def test_console_is_shown_in_no_frame(chromium: Browser, service: Scene) -> None:
    with site(f'<iframe src="{service.address}/"></iframe>') as port, opened(chromium, service) as tab:
        tab.page.goto(f"http://127.0.0.1:{port}/")
        assert all("Overview" not in frame.content() for frame in tab.page.frames[1:])


def figures(session: CDPSession) -> dict[str, float]:
    session.send("HeapProfiler.collectGarbage")
    return {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}


def await_updates(tab: Opened, number: int) -> None:
    """Wait until the script has updated the page so often."""
    for _ in range(number):
        with tab.page.expect_response(lambda answer: "x-part" in answer.request.headers):
            pass


@contextmanager
def live(chromium: Browser, service: Scene, path: str) -> Iterator[tuple[Opened, CDPSession]]:
    """Open a page that has been live for a while, and a way to its figures."""
    with opened(chromium, service) as tab:
        tab.go(path)
        await_updates(tab, 1)
        session = tab.page.context.new_cdp_session(tab.page)
        session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        session.send("Performance.enable")
        yield tab, session


@pytest.mark.parametrize("path", ["/", "/tasks", f"/tasks/{TASK}"])
def test_live_page_asks_no_other_host_and_does_not_grow(chromium: Browser, full: Scene, path: str) -> None:
    with live(chromium, full, path) as (tab, session):
        before = figures(session)
        await_updates(tab, UPDATES)
        after = figures(session)
        assert after["Nodes"] <= before["Nodes"] * 1.05 + 50
        assert not tab.complaints
        assert not [address for address in tab.asked if not address.startswith(full.address)]


@pytest.mark.alone
def test_live_page_takes_little_of_a_processor(chromium: Browser, full: Scene) -> None:
    with live(chromium, full, "/tasks") as (tab, session):
        before, began_s = figures(session)["TaskDuration"], time.monotonic()
        await_updates(tab, UPDATES)
        assert figures(session)["TaskDuration"] - before < 0.05 * (time.monotonic() - began_s)
