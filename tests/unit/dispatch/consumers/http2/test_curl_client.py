"""The client: what arrives and comes back, limits, addresses that fail, proxy, and the end of connections."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pycurl
import pytest

from benchmarks.redis_server import free_port
from consumers.delivery.http2.curl_transfer import refusals_are_shown
from consumers.delivery.http2.port import Fate, Headers, HttpRequest, HttpResponse, RequestFailed
from consumers.delivery.http2.settings import ClientCertificate, ClientSettings, check
from dispatcher.model.errors import InvalidInput
from lab.fake.certificates import make_tls_files
from tests.actors import DEADLINE_S
from tests.unit.dispatch.consumers.http2 import conftest
from tests.unit.dispatch.consumers.http2.calls import attempt, attempts, opened, until
from tests.unit.dispatch.consumers.http2.connect_proxy import proxying
from tests.unit.dispatch.consumers.http2.frame_server import Plan, serving


def reason_of(found: HttpResponse | RequestFailed, fate: Fate) -> str:
    assert isinstance(found, RequestFailed)
    assert found.fate is fate
    return found.reason


# ---------------------------------------------------------------- requests and answers
async def test_a_request_arrives_and_its_answer_comes_back(certificates: Path) -> None:
    async with serving(certificates, Plan()) as server, opened(certificates) as client:
        headers = (("x-id", "one"), ("authorization", "Bearer secret"), ("content-type", "application/json"))
        answer = await client.send(HttpRequest(url=f"{server.url}/3/device/a", body=b'{"a": 1}', headers=headers))
        assert (answer.status, answer.body) == (200, b'{"name": "projects/p/messages/1"}')
        assert answer.header("Retry-After") == "7"
        assert answer.header("apns-id") == "1"
        assert answer.header("location") is None
        assert server.seen.bodies["one"] == b'{"a": 1}'
        arrived = server.seen.headers["one"]
        assert arrived == {
            ":method": "POST",
            ":scheme": "https",
            ":authority": f"127.0.0.1:{server.port}",
            ":path": "/3/device/a",
            "content-length": "8",
            **dict(headers),
        }


async def test_requests_in_a_row_do_not_mix(certificates: Path) -> None:
    async with serving(certificates, Plan()) as server, opened(certificates) as client:
        for number in range(5):
            headers = (("x-id", str(number)), *((("x-more", "y"),) if number == 2 else ()))
            body = b"b" * (10 - number)
            answer = await client.send(HttpRequest(url=f"{server.url}/{number}", body=body, headers=headers))
            assert len(answer.lines) == 4  # status, two headers, the empty line
            assert server.seen.bodies[str(number)] == body
            assert server.seen.headers[str(number)][":path"] == f"/{number}"
            assert ("x-more" in server.seen.headers[str(number)]) == (number == 2)


async def test_of_a_long_answer_the_beginning_is_kept(certificates: Path) -> None:
    plan = Plan(answer=b"a" * 200_000)
    async with serving(certificates, plan) as server, opened(certificates) as client:
        found = await attempt(client, server, "one")
        assert isinstance(found, HttpResponse)
        assert found.body == b"a" * 65_536


@pytest.mark.parametrize("headers", [(("x-id", "a\r\nx-more: b"),), (("x\nid", "a"),)])
async def test_a_header_cannot_bring_another(certificates: Path, headers: Headers) -> None:
    async with serving(certificates, Plan()) as server, opened(certificates) as client:
        with pytest.raises(InvalidInput, match="control character"):
            await client.send(HttpRequest(url=server.url, body=b"{}", headers=headers))
        assert isinstance(await attempt(client, server, "after"), HttpResponse)


async def test_a_request_needs_a_body(certificates: Path) -> None:
    async with opened(certificates) as client:
        with pytest.raises(InvalidInput, match="body"):
            await client.send(HttpRequest(url="https://127.0.0.1", body=b""))


# ---------------------------------------------------------------- limits
async def test_connections_and_streams_are_bounded(certificates: Path) -> None:
    async with (
        serving(certificates, Plan(delay_s=0.02)) as server,
        opened(certificates, connections=3, streams=10) as client,
    ):
        found = await attempts(client, server, [f"r{number}" for number in range(100)])
        assert all(isinstance(one, HttpResponse) for one in found.values())
        assert server.seen.connections == 3
        assert server.seen.most_streams == 10


async def test_the_server_may_allow_fewer_streams(certificates: Path) -> None:
    async with serving(certificates, Plan(streams=1)) as server, opened(certificates, connections=1) as client:
        await attempt(client, server, "first")
        found = await attempts(client, server, [f"r{number}" for number in range(20)])
        assert all(isinstance(one, HttpResponse) for one in found.values())
        assert (server.seen.connections, server.seen.most_streams, server.seen.too_many) == (1, 1, 0)


async def test_a_new_connections_streams_beyond_the_servers_limit_are_not_taken(certificates: Path) -> None:
    """The client begins before it has heard of the limit."""
    plan = Plan(streams=4, delay_s=0.02)
    async with serving(certificates, plan) as server, opened(certificates, connections=1) as client:
        found = await attempts(client, server, [f"r{number}" for number in range(20)])
        assert server.seen.too_many > 0
        for name, one in found.items():
            if isinstance(one, RequestFailed):
                assert one.fate is Fate.NOT_TAKEN
            assert server.seen.accepted[name] == isinstance(one, HttpResponse)


# ---------------------------------------------------------------- servers that cannot be reached or trusted
@pytest.mark.parametrize(("scheme", "reason"), [("https", "connect"), ("http", "http")])
async def test_a_refused_connection_is_not_taken_and_plain_http_not_spoken(
    certificates: Path, scheme: str, reason: str
) -> None:
    async with opened(certificates) as client:
        with pytest.raises(RequestFailed, match=reason) as failed:
            await client.send(HttpRequest(url=f"{scheme}://127.0.0.1:{free_port()}", body=b"{}"))
        assert failed.value.fate is Fate.NOT_TAKEN


async def test_only_the_given_authorities_are_trusted(certificates: Path, tmp_path: Path) -> None:
    make_tls_files(tmp_path, "127.0.0.1")
    async with serving(certificates, Plan()) as server:
        for ca_file in (str(tmp_path / "ca.pem"), None):  # another authority; certifi's
            async with opened(certificates, ca_file=ca_file) as client:
                assert "certificate" in reason_of(await attempt(client, server, "one"), Fate.NOT_TAKEN)
        assert not server.seen.arrived


async def test_a_server_may_ask_for_a_certificate(certificates: Path) -> None:
    shown = ClientCertificate((certificates / "client.pem").read_bytes())
    async with serving(certificates, Plan(asks_for_certificate=True)) as server:
        async with opened(certificates, certificate=shown) as client:
            assert isinstance(await attempt(client, server, "shown"), HttpResponse)
        async with opened(certificates) as client:
            assert isinstance(await attempt(client, server, "none"), RequestFailed)
        assert server.seen.arrived == {"shown": 1}


# ---------------------------------------------------------------- proxy
async def test_requests_go_through_the_proxy(certificates: Path) -> None:
    async with serving(certificates, Plan()) as server, proxying() as proxy:
        async with opened(certificates, proxy=proxy.url) as client:
            found = await attempt(client, server, "one")
        assert isinstance(found, HttpResponse)
        assert found.header("x-proxy") is None  # of the proxy's answer to CONNECT
        assert proxy.asked == [f"127.0.0.1:{server.port}"]
        assert server.seen.accepted == {"one": 1}


async def test_a_proxy_may_be_reached_by_tls(certificates: Path) -> None:
    async with serving(certificates, Plan()) as server, proxying(certificates=certificates) as proxy:
        async with opened(certificates, proxy=proxy.url) as client:
            assert isinstance(await attempt(client, server, "by proxy"), HttpResponse)
        assert len(proxy.asked) == 1


async def test_a_proxy_that_refuses_or_is_gone_has_taken_nothing(certificates: Path) -> None:
    async with serving(certificates, Plan()) as server, proxying(refuse=True) as proxy:
        for address in (proxy.url, f"http://127.0.0.1:{free_port()}"):
            async with opened(certificates, proxy=address) as client:
                reason_of(await attempt(client, server, "one"), Fate.NOT_TAKEN)
        assert not server.seen.arrived


async def test_proxies_of_the_environment_are_not_used(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with serving(certificates, Plan()) as server, proxying() as proxy:
        async with opened(certificates) as client:
            assert isinstance(await attempt(client, server, "direct"), HttpResponse)
        async with opened(certificates, proxy=proxy.url) as client:
            assert isinstance(await attempt(client, server, "by proxy"), HttpResponse)
        assert len(proxy.asked) == 1


async def test_names_may_have_any_letters(certificates: Path, tmp_path: Path) -> None:
    """An error of ours would be one of each target."""
    authority = tmp_path / "Behörde.pem"
    authority.write_bytes((certificates / "ca.pem").read_bytes())
    async with serving(certificates, Plan()) as server, proxying() as proxy:
        address = proxy.url.replace("//", "//jürgen:pässe@")
        async with opened(certificates, ca_file=str(authority), proxy=address) as client:
            assert isinstance(await attempt(client, server, "by proxy"), HttpResponse)
        async with opened(certificates) as client:
            server.url = "https://127.0.0.1:9/bücher"
            reason_of(await attempt(client, server, "to an address"), Fate.NOT_TAKEN)


# ---------------------------------------------------------------- the end of connections
async def test_renewed_connections_end_when_their_requests_have(certificates: Path) -> None:
    async with serving(certificates, Plan(delay_s=0.1)) as server, opened(certificates) as client:
        before = asyncio.ensure_future(attempt(client, server, "before"))
        await asyncio.sleep(0.05)
        client.renew_connections()
        after = await attempt(client, server, "after")
        assert isinstance(await before, HttpResponse)
        assert isinstance(after, HttpResponse)
        assert server.seen.connections == 2
        await until(lambda: server.open_connections == 1)


async def test_a_closed_client_says_what_became_of_its_requests(certificates: Path) -> None:
    """One that never got a stream is not taken."""
    plan = Plan(delay_s=60, streams=1)
    async with serving(certificates, plan) as server, opened(certificates, connections=1, streams=1) as client:
        first = asyncio.ensure_future(attempt(client, server, "first"))
        await until(lambda: bool(server.seen.accepted))
        second = asyncio.ensure_future(attempt(client, server, "second"))
        await asyncio.sleep(0.05)
        await client.close()
        reason_of(await first, Fate.UNKNOWN)
        reason_of(await second, Fate.NOT_TAKEN)
        reason_of(await attempt(client, server, "late"), Fate.NOT_TAKEN)
        assert server.seen.arrived == {"first": 1}


async def test_libcurl_that_waits_for_a_resolver_holds_up_nobody(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end waits for the resolvers of names that are not found, such as for half a minute."""

    is_found, is_closed = threading.Event(), threading.Event()

    class Waiting(pycurl.CurlMulti):  # type: ignore[misc]  # it has no types
        def close(self) -> None:
            is_found.wait(DEADLINE_S)
            super().close()
            is_closed.set()

    monkeypatch.setattr(pycurl, "CurlMulti", Waiting)
    async with serving(certificates, Plan()) as server, opened(certificates) as client:
        await attempt(client, server, "before")
        client.renew_connections()
        assert isinstance(await attempt(client, server, "after"), HttpResponse)
        await client.close()
        assert not is_closed.is_set()
        is_found.set()
        await until(lambda: server.open_connections == 0)


# ---------------------------------------------------------------- settings and versions
@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"ca_file": "/nowhere/ca.pem"}, "ca_file cannot be read"),
        ({"ca_file": conftest.__file__}, "ca_file holds no certificate"),
        ({"certificate": ClientCertificate(b"-----BEGIN CERTIFICATE-----")}, "certificate holds no private key"),
        ({"certificate": ClientCertificate(b"-----BEGIN PRIVATE KEY-----")}, "certificate holds no certificate"),
    ],
)
def test_wrong_settings_name_their_field(values: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidInput, match=cause):
        check(ClientSettings(**values))


def test_a_certificate_is_not_shown() -> None:
    assert "secret" not in repr(ClientSettings(certificate=ClientCertificate(b"secret")))


def test_refusals_were_shown_with_this_libcurl() -> None:
    """If it fails after an upgrade and test_at_most_once.py does not: name the new version in curl_transfer.py."""
    assert refusals_are_shown(), pycurl.version


def test_pycurl_is_not_imported_before_a_client_is_made() -> None:
    code = "import sys, consumers.delivery.http2.curl_client; sys.exit('pycurl' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[5])
