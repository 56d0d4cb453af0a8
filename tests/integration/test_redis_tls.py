"""Redis behind TLS: its certificate from an authority of one's own, and a client certificate asked for.

The TLS end is a small relay in front of the server, since not every server binary was built with TLS.
"""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.redis.registry.registry import Registry
from backends.redis.view import open_view
from backends.settings import RedisSettings
from benchmarks.redis_server import running
from dispatcher.model.errors import Unreachable
from dispatcher.wire.control import FORMAT, GlobalChange

OPENSSL = shutil.which("openssl") or ""
pytestmark = pytest.mark.skipif(not OPENSSL, reason="openssl is needed to make certificates")


def openssl(folder: Path, *words: str) -> None:
    subprocess.run([OPENSSL, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem signs server.pem (for 127.0.0.1) and client.pem; other.pem is another authority."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    authority = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    for name in ("ca", "other"):
        subject = ("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        openssl(folder, "req", "-x509", *key, *subject, *authority)
    (folder / "extensions").write_text(
        "subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
    )
    for name in ("server", "client"):
        openssl(folder, "req", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "extensions")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signing)
    return folder


@pytest.fixture(scope="module")
def tls_port(certificates: Path) -> Iterator[int]:
    """A relay that speaks TLS in front of a real server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.load_verify_locations(certificates / "ca.pem")
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


def settings(port: int, certificates: Path, ca: str, client: bool) -> RedisSettings:
    return RedisSettings(
        url=f"rediss://127.0.0.1:{port}/0",
        tls_ca=certificates / ca,
        tls_cert=certificates / "client.pem" if client else None,
        tls_key=certificates / "client.key" if client else None,
    )


def test_own_authority_and_client_certificate(tls_port: int, certificates: Path) -> None:
    view = open_view(settings(tls_port, certificates, "ca.pem", client=True))
    Registry(view).control.apply("1", GlobalChange(FORMAT, "capacity", "5", 0))
    assert Registry(view).service.globals().capacity == 5
    view.close()


@pytest.mark.parametrize(
    ("ca", "client", "message"),
    [
        ("other.pem", True, "is not trusted.*Set the Redis tls_ca"),
        ("ca.pem", False, "Redis at .* asks for a client cert"),
    ],
)
def test_a_wrong_authority_or_no_client_certificate_is_refused(
    tls_port: int, certificates: Path, ca: str, client: bool, message: str
) -> None:
    view = open_view(settings(tls_port, certificates, ca, client))
    with pytest.raises(Unreachable, match=message):
        view.ping()
    view.close()
