"""The clients of the http channel."""

import pytest

from tests.unit.dispatch.consumers.http_posts import CLIENTS, Chosen


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with both clients."""
    if request.param == "pycurl":
        pytest.importorskip("pycurl")
    monkeypatch.setattr(Chosen, "client", request.param)
    return str(request.param)
