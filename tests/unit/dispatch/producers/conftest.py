"""The service that most tests of submitting begin with."""

import pytest

from tests.unit.dispatch.producers.fake_service import FakeService


@pytest.fixture
def world() -> FakeService:
    return FakeService()
