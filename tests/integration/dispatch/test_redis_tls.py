"""Redis behind TLS: its certificate from an authority of one's own, and a client certificate asked for.

The TLS end is a small relay in front of the server, since not every server binary was built with TLS.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backends.redis.registry.registry import Registry
from backends.redis.view import open_view
from backends.settings import RedisSettings
from benchmarks.redis_server import running
from dispatcher.model.errors import Unreachable
from dispatcher.wire.control import FORMAT, GlobalChange
from lab.fake.certificates import TlsFiles, make_tls_files


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("certificates"), "127.0.0.1")


@pytest.fixture(scope="module")
def tls_port(certificates: TlsFiles) -> Iterator[int]:
    """A relay that speaks TLS in front of a real server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    with running() as server, socket.create_server(("127.0.0.1", 0)) as listener:
        relay = threading.Thread(target=_relay, args=(listener, context, server.port))
        relay.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        relay.join()


def _relay(listener: socket.socket, context: ssl.SSLContext, backend: int) -> None:
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(plain, context, backend), daemon=True).start()


def _serve(plain: socket.socket, context: ssl.SSLContext, backend: int) -> None:
    """One request, one answer: this project's clients wait for the answer before they ask again."""
    with plain, socket.create_connection(("127.0.0.1", backend)) as server:
        try:
            with context.wrap_socket(plain, server_side=True) as client:
                while request := client.recv(65_536):
                    server.sendall(request)
                    client.sendall(server.recv(65_536))
        except OSError:
            return


def settings(port: int, authority: Path, client: Path | None) -> RedisSettings:
    return RedisSettings(url=f"rediss://127.0.0.1:{port}/0", tls_ca=authority, tls_cert=client, tls_key=client)


def test_own_authority_and_client_certificate(tls_port: int, certificates: TlsFiles) -> None:
    view = open_view(settings(tls_port, certificates.authority, certificates.client))
    Registry(view).control.apply("1", GlobalChange(FORMAT, "capacity", "5", 0))
    assert Registry(view).service.globals().capacity == 5
    view.close()


def test_a_wrong_authority_or_no_client_certificate_is_refused(
    tls_port: int, certificates: TlsFiles, tmp_path: Path
) -> None:
    other = make_tls_files(tmp_path, "127.0.0.1").authority
    for authority, client, message in (
        (other, certificates.client, "is not trusted.*Set the Redis tls_ca"),
        (certificates.authority, None, "Redis at .* asks for a client cert"),
    ):
        view = open_view(settings(tls_port, authority, client))
        with closing(view), pytest.raises(Unreachable, match=message):
            view.ping()
