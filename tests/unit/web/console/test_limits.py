"""The limits page: what binds, and forms that show the effects first."""

import pytest

from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing


@pytest.fixture
def busy(world: DeskWorld) -> DeskWorld:
    """Two apps share a capacity; each task has 1,000 targets."""
    world.client.set_capacity(100)
    for id_, app in (("sale", "shop"), ("news", "news")):
        world.submit(id_, app, [f"{id_}-{number}" for number in range(1_000)])
    return world


async def test_x(busy: DeskWorld) -> None:
    busy.client.cap_app("shop", 10)
    async with browsing(busy) as browser:
        seen = await browser.get("/limits")
        print(seen.text)
        for form, fields in (
            ("channel", {"channel": "log", "cap": "50", "do": "cap"}),
            ("channel", {"channel": "log", "do": "pause"}),
            ("app", {"app": "shop", "cap": "none", "weight": "2", "tasks": "5"}),
            ("capacity", {"capacity": "x"}),
        ):
            seen = await browser.send(f"/limits/{form}", fields)
            print(seen.text)
        assert 0
