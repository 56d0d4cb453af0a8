"""Settings of a client, and a check of the files they name."""

from pathlib import Path

import msgspec

from dispatcher.model.errors import InvalidInput


class ClientCertificate:
    """A certificate and its private key in one PEM text. Never shown."""

    __slots__ = ("pem",)

    def __init__(self, pem: bytes) -> None:
        self.pem = pem

    def __repr__(self) -> str:
        return "ClientCertificate(**********)"


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a client connects, and how much it may use."""

    http2: bool = True
    """Whether requests go over HTTP/2 and TLS only. False: over HTTP/1.1, also without TLS."""
    ca_file: str | None = None
    """A PEM file with the accepted certificate authorities. None: those of the package certifi."""
    ca_folder: str | None = None
    """A folder with further ones, by their hashes as OpenSSL wants them."""
    kept_bytes: int = 65_536
    """The longest answer that is kept whole. Of a longer one the rest is not read, if it comes over HTTP/1.1."""
    certificate: ClientCertificate | None = None
    """The certificate that the client shows to the server, if any."""
    proxy: str | None = None
    """The address of the egress proxy. None: connect directly, whatever the environment says."""
    connections: int = 10
    """The maximum number of connections to a server."""
    streams: int = 100
    """The maximum number of concurrent requests on a connection. The server may allow fewer."""
    timeout_s: float = 10.0
    """The time limit of a request, from the call to the end of the answer."""
    connect_timeout_s: float = 5.0
    """The time limit of connecting, TLS included."""


def check(settings: ClientSettings) -> None:
    """Raise InvalidInput if a file or a credential cannot be used, naming the field."""
    if settings.ca_file is not None:
        _check_ca_file(settings.ca_file)
    if settings.certificate is not None:
        _check_certificate(settings.certificate.pem)


def _check_ca_file(name: str) -> None:
    try:
        text = Path(name).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        cause = f"ca_file cannot be read: {name}: {error.strerror or error}."
        raise InvalidInput(cause, "Name a readable PEM file.") from error
    if "CERTIFICATE-----" not in text:
        raise InvalidInput(f"ca_file holds no certificate: {name}.", "Name a PEM file with certificate authorities.")


def _check_certificate(pem: bytes) -> None:
    for part in (b"CERTIFICATE-----", b"PRIVATE KEY-----"):
        if part not in pem:
            cause = f"certificate holds no {part.decode().strip('-').lower()}."
            raise InvalidInput(cause, "Give it certificate and private key, both as PEM, in one text.")
