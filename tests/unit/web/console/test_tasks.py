"""The page of tasks: what it lists, and changes of many that are previewed."""

import pytest

from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing


@pytest.fixture
def world(world: DeskWorld) -> DeskWorld:
    world.submit("sale")
    world.submit("digest", "news", tier="low")
    world.board.read()
    world.board.show()
    return world


async def test_list(world: DeskWorld) -> None:
    async with browsing(world) as browser:
        page = await browser.get("/tasks")
        assert page.status == 200, page.text
        print(page.text)
        page = await browser.get("/tasks/sale")
        print(page.text)
        assert page.status == 200, page.text
        page = await browser.send("/tasks/sale/change", {"do": "pause"})
        print(page.text)
        page = await browser.send("/tasks/change", {"do": "pause", "id": ["sale", "digest"]})
        print(page.text)
        page = await browser.confirm("/tasks/change", {"do": "pause", "id": ["sale", "digest"]})
        print(page.text)
        page = await browser.send("/tasks/sale/message", {"title": "a", "body": "b\r\nc"})
        print(page.text)
        page = await browser.confirm("/tasks/sale/message", {"title": "a", "body": "b\r\nc"})
        print(page.text)
