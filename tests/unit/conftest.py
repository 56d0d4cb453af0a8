"""The world that most tests of the engine begin with."""

import pytest

from tests.unit.engine_world import EngineWorld


@pytest.fixture
def world() -> EngineWorld:
    """No tasks, no workers, and a provider that sends everything."""
    return EngineWorld()
