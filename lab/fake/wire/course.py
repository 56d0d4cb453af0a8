"""The course of a connection by the rules: which of its requests are answered, which are its last, and a break."""

import asyncio
import enum
import socket
import struct

from lab.fake.rules import FakeRules


class Step(enum.Enum):
    """How a request ends."""

    ANSWER = "taken and answered"
    LAST = "taken and answered, then the connection takes no more"
    UNTAKEN = "above the last stream id"
    RESET = "taken, then the connection breaks"
    SILENT = "taken; no more is written"


def step_of(number: int, rules: FakeRules) -> Step:
    """Return what becomes of the request with this number on its connection; the first is 1."""
    if rules.reset_after is not None and number >= rules.reset_after:
        return Step.RESET
    if rules.half_open_after is not None and number > rules.half_open_after:
        return Step.SILENT
    if rules.goaway is not None and number > rules.goaway.after:
        return Step.UNTAKEN
    if rules.goaway is not None and number == rules.goaway.after and not rules.goaway.untaken:
        return Step.LAST
    return Step.ANSWER


def break_connection(transport: asyncio.BaseTransport) -> None:
    """Send a TCP reset, unless the connection has ended. One that is closing does not wait for its peer any longer."""
    raw = transport.get_extra_info("socket")
    if raw is not None and not transport.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()  # type: ignore[attr-defined]  # uvloop's transports are no subclass
