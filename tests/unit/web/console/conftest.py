"""A service in memory, for the console."""

import pytest

from tests.unit.dispatch.desk.desk_world import DeskWorld


@pytest.fixture
def world() -> DeskWorld:
    world = DeskWorld()
    world.book.follow()
    return world
