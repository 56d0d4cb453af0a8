"""Chooses ports on the loopback address: the usual one if it is free, else the next free one."""

import errno
import socket
from collections.abc import Collection

from fairlane.stack.errors import PortTaken, StackError

HOST = "127.0.0.1"
NEIGHBOURS = 200


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port now: nobody answers there, and all addresses can be bound."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def choose(preferred: int, avoid: Collection[int] = ()) -> int:
    """Return the preferred port, or the next free one after it. `avoid`: ports already assigned to others."""
    for port in range(preferred, min(preferred + NEIGHBOURS, 65_536)):
        if port not in avoid and is_free(port):
            return port
    raise StackError(
        f"No free port between {preferred} and {preferred + NEIGHBOURS}.", "Stop some of the servers listening there."
    )


def require(port: int, what: str) -> int:
    """Return a port that was requested by number. Raises PortTaken if it is in use."""
    if not is_free(port):
        raise PortTaken(
            f"Port {port} for {what} is taken by another program.",
            f"Stop that program (`ss -ltnp 'sport = :{port}'` shows it) or leave the port out: a free one is chosen.",
        )
    return port
