"""The door of a service in memory."""

import pytest

from tests.unit.dispatch.desk.desk_world import DeskWorld


@pytest.fixture
def world() -> DeskWorld:
    return DeskWorld()
