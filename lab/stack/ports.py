"""Chooses ports on the loopback address: the usual one if it is free, else the next free one."""

import errno
import socket
import zlib
from collections.abc import Collection
from pathlib import Path

from lab.stack.errors import PortTaken, StackError

HOST = "127.0.0.1"
NEIGHBOURS = 200
_OWN_FROM, _OWN = 20_000, 10_000
"""Range of ports that data is bound to: below those that the system assigns to outgoing connections."""


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


def own_port(directory: Path, apart: int = 1) -> int:
    """Return where to look for the ports that a directory's data is bound to.

    Each directory has a start of its own, so that the ports of two stacks rarely meet. apart: minimum distance between
    two starts.
    """
    return _OWN_FROM + zlib.crc32(bytes(directory)) % (_OWN // apart) * apart


def require_bound(port: int, owner: str) -> int:
    """Return a port that data is bound to. Raises PortTaken if it is in use."""
    if not is_free(port):
        raise PortTaken(
            f"Port {port}, to which the {owner}'s data is bound, is taken by another program.",
            f"Stop that program (`ss -ltnp 'sport = :{port}'` shows it), or wipe the data: `stack down --wipe`.",
        )
    return port
