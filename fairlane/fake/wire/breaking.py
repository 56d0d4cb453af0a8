"""Break a connection without a farewell."""

import asyncio
import socket
import struct


def break_connection(transport: asyncio.BaseTransport) -> None:
    """Send a TCP reset, unless the connection has ended."""
    if transport.is_closing():
        return
    raw = transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()  # type: ignore[attr-defined]  # uvloop's transports are no subclass
