"""Break a connection without a farewell."""

import asyncio
import socket
import struct


def break_connection(transport: asyncio.BaseTransport) -> None:
    """Send a TCP reset, unless the connection has ended. One that is closing does not wait for its peer any longer."""
    raw = transport.get_extra_info("socket")
    if raw is not None and not transport.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()  # type: ignore[attr-defined]  # uvloop's transports are no subclass
