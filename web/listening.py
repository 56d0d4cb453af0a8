"""Where the API listens, and for whom."""

import os
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dispatcher.model.errors import InvalidInput, Unreachable

LOOPBACK = ("127.0.0.1", "::1", "localhost")
LOCAL_HOSTS = ("127.0.0.1", "[::1]", "localhost")
"""Values of the header Host of clients on this machine."""
BACKLOG = 1_024
_PORTS = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a server listens, and for whom."""

    host: str = "127.0.0.1"
    port: int = 8480
    """0: any free one."""
    unix_socket: Path | None = None
    """Listen here instead of at host and port."""
    certificate: Path | None = None
    """With `private_key`: TLS, with these PEM files."""
    private_key: Path | None = None
    behind_proxy: bool = False
    """A proxy in front of it speaks TLS."""
    user_header: str = ""
    """The header in which a proxy names the user of the console; empty: users sign in with keys."""
    is_local: bool = False
    """It serves the local stack, so that the reader of its terminal may be its operator."""
    estate_board: str = ""
    """Address of the estate's board, for a link; empty: none."""
    hosts: frozenset[str] = frozenset(LOCAL_HOSTS)
    """Names by which clients may call it."""
    processes: int = 1
    metrics_host: str = "127.0.0.1"
    metrics_port: int = -1
    """Port of the first process; further ones take the next. 0: any free ones, -1: none."""

    def check(self) -> None:
        """Raise InvalidInput for a server that would carry keys over a network in the clear, or could not begin."""
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidInput("TLS needs both files.", "Give --tls-certificate and --tls-key.")
        is_here = self.unix_socket is not None or self.host in LOOPBACK
        if not (is_here or self.certificate or self.behind_proxy):
            raise InvalidInput(
                f"host: {self.host} is not this machine alone, and keys would travel in the clear.",
                "Give --tls-certificate and --tls-key, or --behind-proxy if a proxy in front of it has them.",
            )
        if self.user_header and self.unix_socket is None:
            raise InvalidInput(
                "user-header: anyone who reaches the port could name a user.",
                "Let the proxy reach the server by --unix-socket.",
            )
        if self.metrics_port > 0 and self.metrics_port + self.processes > _PORTS:
            raise InvalidInput("metrics-port: leaves too few ports for the further processes.", "Choose a lower one.")
        self.tls()

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach it by TLS, at this server or at a proxy."""
        return self.certificate is not None or self.behind_proxy

    @property
    def offers_link(self) -> bool:
        """Whether it prints a link by which one signs in without a key."""
        return self.is_local and self.unix_socket is None and self.host in LOOPBACK and not self.behind_proxy

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of TLS; None without. Raises InvalidInput if the files do not serve."""
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.private_key, password="")  # never ask for one
        except OSError as error:
            raise InvalidInput(
                f"TLS cannot be served with {self.certificate} and {self.private_key}: {error}.",
                "Give a certificate and its own key in PEM, without a password.",
            ) from error
        return context


@contextmanager
def listening(settings: ServerSettings) -> Iterator[socket.socket]:
    """Listen for the time of the block. Raises Unreachable if the address is taken, or is not of this machine."""
    path = settings.unix_socket
    try:
        listener = _at_port(settings.host, settings.port) if path is None else _at_path(path)
    except (OSError, UnicodeError) as error:
        where = path or f"{settings.host}:{settings.port}"
        reason = getattr(error, "strerror", None) or error
        raise Unreachable(
            f"The server cannot listen at {where}: {reason}.",
            "Choose another --port, --host or --unix-socket, or end the process that has this one.",
        ) from error
    try:
        with listener:
            listener.settimeout(0)
            yield listener
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def address_of(settings: ServerSettings, listener: socket.socket) -> str:
    """Return where the server is, for people."""
    scheme = "http" if settings.certificate is None else "https"
    if settings.unix_socket is not None:
        return f"{scheme}+unix://{settings.unix_socket}"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def _at_port(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address, family=family, backlog=BACKLOG)


def _at_path(path: Path) -> socket.socket:
    """Listen at a path. A socket that nobody listens at, of a process that was killed, is replaced."""
    with suppress(FileNotFoundError, ConnectionRefusedError):
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(os.fspath(path))
        raise FileExistsError(0, "another process listens there")
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    return socket.create_server(os.fspath(path), family=socket.AF_UNIX, backlog=BACKLOG)
