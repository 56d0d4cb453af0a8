"""A fake of FCM with a client beside it."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.unit.lab.fake.playing import Playing, fcm


@pytest.fixture
def playing(tmp_path: Path) -> AbstractAsyncContextManager[Playing]:
    return fcm(tmp_path)
