"""Whatever a server around Fairlane answers, it is read within bounds of bytes, time, redirects and nesting.

Token issuers are in tests/unit/dispatch/consumers/push/test_issuer_answers.py.
"""

import ast
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import urllib3

from backends.bounded import Bounds, open_http
from backends.pulsar.admin import PulsarAdmin
from backends.redis.faults import NoPrimary
from backends.redis.sentinel import Sentinels, asker
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError
from estate.facts.bookie_switch import BookieSwitch
from tests.unit.odd_server import CHUNK, SENTINEL, WEB, OddServer, odd_server

ROOT = Path(__file__).resolve().parents[4]
PRODUCT = ("backends", "consumers", "fairlane", "producers", "quotas", "spark_jobs", "estate", "lab")
SMALL = Bounds(1 << 20, 0.5)
MAX_SENT = 200 << 20
"""Most bytes that all tries of a call may take from a server: the bound of each, and what its socket holds."""


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.pulsar.admin.PULSAR_BYTES", SMALL.max_bytes)
    monkeypatch.setattr("estate.facts.bookie_switch.NODE", SMALL)
    monkeypatch.setattr("backends.redis.sentinel.SENTINEL_BYTES", SMALL.max_bytes)


@pytest.fixture
def wrong(request: pytest.FixtureRequest) -> Iterator[OddServer]:
    """A server with the behavior of this name."""
    with odd_server({**WEB, **SENTINEL}[request.param]) as server:
        yield server
    assert server.sent <= MAX_SENT


@pytest.mark.parametrize("wrong", WEB, indirect=True)
def test_an_answer_of_pulsars_rest_interface_is_bounded(wrong: OddServer) -> None:
    admin = PulsarAdmin(PulsarSettings(admin_url=wrong.address, operation_timeout_s=0.5, connect_timeout_s=0.5))
    with pytest.raises(FairlaneError):
        admin.runtime_configuration()
    admin.close()


@pytest.mark.parametrize("wrong", WEB, indirect=True)
def test_an_answer_of_a_node_is_bounded(wrong: OddServer) -> None:
    switch = BookieSwitch(wrong.address.replace("127.0.0.1", "{host}"))
    with pytest.raises(FairlaneError):
        switch.writable(["127.0.0.1:3181"])
    with suppress(FairlaneError):  # some of these answers are a success
        switch.set_read_only("127.0.0.1:3181", read_only=True)
    switch.close()


@pytest.mark.parametrize("wrong", SENTINEL, indirect=True)
def test_an_answer_of_a_sentinel_is_bounded(wrong: OddServer) -> None:
    options = {"decode_responses": True, "protocol": 2, "socket_connect_timeout": 0.5, "socket_timeout": 0.5}
    with pytest.raises(NoPrimary, match="no Sentinel names one"):
        Sentinels("main", [("127.0.0.1", wrong.port)], asker("main", options)).discover_master()


@pytest.mark.parametrize("size", [0, 1, 100_000, SMALL.max_bytes - 1_000])
def test_an_answer_within_its_bounds_is_whole(size: int) -> None:
    body = (CHUNK * 16)[:size]
    with odd_server(lambda talk: talk.sized(body)) as server, open_http(SMALL, retries=False) as http:
        for preload in (True, False):
            answer = http.request("GET", server.address, preload_content=preload)
            assert (answer.status, answer.data or b"") == (200, body)


@pytest.mark.parametrize(
    ("behavior", "error", "reason"),
    [
        ("an endless body", urllib3.exceptions.ProtocolError, "more than 1,048,576 bytes"),
        ("a body that drips", urllib3.exceptions.ReadTimeoutError, "timed out"),
    ],
)
def test_an_answer_beyond_its_bounds_says_which(behavior: str, error: type[Exception], reason: str) -> None:
    with odd_server(WEB[behavior]) as server, pytest.raises(error, match=reason):
        open_http(SMALL, retries=False).request("GET", server.address)


def test_only_one_place_opens_connections_for_http() -> None:
    """Others would be without bounds. The demo asks its own fake."""
    opened = [
        path.relative_to(ROOT).as_posix()
        for package in PRODUCT
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(
            ("PoolManager", "ProxyManager", "urlopen", "HTTPConnection", "HTTPSConnection")
        )
    ]
    assert set(opened) == {"backends/bounded.py", "lab/fake/process.py"}
