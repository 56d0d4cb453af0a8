"""Waits of the push channels are short in tests."""

import pytest

from consumers.delivery.push import access, sender


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "CHECKED_EVERY_S", 0.1)
    monkeypatch.setattr(access, "RETRY_S", (0.1,))
    monkeypatch.setattr(sender, "WAITS_S", 0.2)
