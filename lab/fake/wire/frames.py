"""Frames of HTTP/2, and errors of connections."""

import enum
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES = 16_384
MAX_WINDOW = 2**31 - 1
DEFAULT_WINDOW = 65_535
HEAD_BYTES = 9


class FrameKind(enum.IntEnum):
    """Types of frames."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag(enum.IntFlag):
    """Flags of frames."""

    NONE = 0
    END_STREAM = 1
    ACK = 1
    END_HEADERS = 4
    PADDED = 8
    PRIORITY = 32


class Code(enum.IntEnum):
    """Error codes."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class FrameSetting(enum.IntEnum):
    """Settings of a connection."""

    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4


class ConnectionFault(Exception):
    """The client breaks the protocol; the connection ends."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


class Frame(NamedTuple):
    """A frame as it was received."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    return b"%b%c%c%b%b" % (len(payload).to_bytes(3, "big"), kind, flags, stream.to_bytes(4, "big"), payload)


def settings(values: dict[FrameSetting, int]) -> bytes:
    """Return a SETTINGS frame."""
    payload = b"".join(name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in values.items())
    return frame(FrameKind.SETTINGS, 0, 0, payload)


def read_settings(payload: bytes) -> dict[int, int]:
    """Return the values of a SETTINGS frame. Raises ConnectionFault."""
    if len(payload) % 6:
        raise ConnectionFault(Code.FRAME_SIZE_ERROR, "SETTINGS of a wrong size")
    parts = [payload[at : at + 6] for at in range(0, len(payload), 6)]
    return {int.from_bytes(part[:2], "big"): int.from_bytes(part[2:], "big") for part in parts}


def window_update(stream: int, size: int) -> bytes:
    """Return a WINDOW_UPDATE frame."""
    return frame(FrameKind.WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big"))


def reset(stream: int, code: Code) -> bytes:
    """Return a RST_STREAM frame."""
    return frame(FrameKind.RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def go_away(last_stream: int, code: Code, text: str = "") -> bytes:
    """Return a GOAWAY frame."""
    return frame(FrameKind.GOAWAY, 0, 0, last_stream.to_bytes(4, "big") + code.to_bytes(4, "big") + text.encode())


def split(buffer: bytearray) -> list[Frame]:
    """Take the complete frames off a buffer. Raises ConnectionFault."""
    frames, at, end = [], 0, len(buffer)
    while end - at >= HEAD_BYTES:
        size = int.from_bytes(buffer[at : at + 3], "big")
        if size > MAX_FRAME_BYTES:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
        after = at + HEAD_BYTES + size
        if after > end:
            break
        stream = int.from_bytes(buffer[at + 5 : at + HEAD_BYTES], "big") & MAX_WINDOW
        frames.append(Frame(buffer[at + 3], buffer[at + 4], stream, bytes(buffer[at + HEAD_BYTES : after])))
        at = after
    del buffer[:at]
    return frames


def unpadded(frame: Frame) -> bytes:
    """Return the payload of DATA or HEADERS without padding and priority. Raises ConnectionFault."""
    payload, flags = frame.payload, frame.flags
    padding = 0
    if flags & Flag.PADDED:
        if not payload or payload[0] >= len(payload):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "padding longer than its frame")
        padding, payload = payload[0], payload[1:]
    if frame.kind == FrameKind.HEADERS and flags & Flag.PRIORITY:
        payload = payload[5:]
    return payload[: len(payload) - padding] if padding else payload
