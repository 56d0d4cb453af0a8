"""A rig of each provider, and waits of the push channels that are short."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from consumers.delivery.push import access, sender
from tests.unit.dispatch.consumers.push.rig import TARGETS, Rig, rig


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "CHECKED_EVERY_S", 0.1)
    monkeypatch.setattr(access, "RETRY_S", (0.1,))
    monkeypatch.setattr(sender, "WAITS_S", 0.2)


@pytest.fixture(params=[(name, {}) for name in TARGETS], ids=list(TARGETS))
def at(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
    """Run a test with each provider, or with those of its mark `rigged`."""
    name, settings = request.param
    return rig(name, tmp_path, **settings)
