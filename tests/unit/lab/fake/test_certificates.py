"""The certificates of a fake."""

import ssl
from pathlib import Path

from lab.fake.certificates import make_tls_files


def strict(purpose: ssl.Purpose, authority: Path) -> ssl.SSLContext:
    """Check certificates as Python 3.13 does unless it is told otherwise."""
    context = ssl.create_default_context(purpose, cafile=authority)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while sides:
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)


def test_both_sides_trust_the_other_by_the_strict_rules_of_python_3_13(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path, "fake.test", asks=True)
    client, server = strict(ssl.Purpose.SERVER_AUTH, files.authority), strict(ssl.Purpose.CLIENT_AUTH, files.authority)
    client.load_cert_chain(files.client)
    server.load_cert_chain(files.server, files.server_key)
    for host in ("fake.test", "localhost", "127.0.0.1"):
        shake_hands(client, server, host)
