"""Refuse requests that two servers in a row could read in two ways, beyond what the parser of aiohttp refuses.

Its parser in C takes no request with two lengths, a bare line feed or a folded header. It lets pass what a proxy in
front of it may read otherwise: extensions of chunks, other codings before `chunked`, other versions, doubled headers.
"""

from collections.abc import Sequence
from typing import Any

from aiohttp.http import HttpRequestParser, HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestPayloadError

MAX_HEAD_BYTES = 16 << 10
"""The largest request line and headers together."""
_MAX_CHUNK_LINE = 20
_SINGLE = ("Authorization", "Content-Encoding", "Idempotency-Key")
"""Headers that a request may have once; aiohttp sees to Host, Content-Type and the lengths."""
Parsed = tuple[Sequence[tuple[RawRequestMessage, StreamReader]], bool, bytes]


class StrictParser:
    """The parser of one connection, with more rules. Where one is broken it raises BadHttpMessage, as its own do."""

    def __init__(self, parser: HttpRequestParser) -> None:
        self._parser = parser
        self._head = bytearray()
        self._body: StreamReader = EMPTY_PAYLOAD
        self._chunks: ChunkLines | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    @property
    def is_in_head(self) -> bool:
        """Whether a request has begun whose headers are not complete."""
        return bool(self._head)

    def feed_data(self, data: bytes) -> Parsed:
        """Parse more bytes. The reader of a body that they break gets RequestPayloadError."""
        in_body = not self._body.is_eof()
        try:
            parsed: Parsed = self._parser.feed_data(data)
            if messages := parsed[0]:
                self._begin(messages, b"" if in_body else bytes(self._head + data))
            elif not in_body:
                self._head += data
                if len(self._head) > MAX_HEAD_BYTES:
                    raise BadHttpMessage("The headers are too long")
            elif self._chunks is not None:
                self._chunks.check(data)
        except (HttpProcessingError, ValueError) as error:
            self._head.clear()
            if in_body:
                self._body.set_exception(RequestPayloadError())
            raise error if isinstance(error, HttpProcessingError) else BadHttpMessage("A chunk has no size") from error
        return parsed

    def _begin(self, messages: Sequence[tuple[RawRequestMessage, StreamReader]], read: bytes) -> None:
        """Check new requests. read: all bytes since the last one; empty if the end of its body is among them."""
        self._head.clear()
        for message, _ in messages:
            check_message(message)
        self._body = messages[-1][1]
        head, end, body = read.lstrip(b"\r\n").partition(b"\r\n\r\n")
        if len(head) > MAX_HEAD_BYTES:
            raise BadHttpMessage("The headers are too long")
        self._chunks = ChunkLines() if any(message.chunked for message, _ in messages) else None
        if self._chunks is not None:
            if len(messages) > 1 or not end:
                raise BadHttpMessage("A chunked request came before the answer to the one before it")
            self._chunks.check(body)


class ChunkLines:
    """Follows the sizes of the chunks of one body, which the parser has checked, to find extensions."""

    def __init__(self) -> None:
        self._line = b""
        self._skip = 0
        self._ended = False

    def check(self, data: bytes) -> None:
        """Follow more bytes. Raises BadHttpMessage for an extension, ValueError for a size that is none."""
        at = self._skip
        while at < len(data) and not self._ended:
            end = data.find(b"\n", at)
            line = self._line + (data[at:] if end < 0 else data[at : end + 1])
            if b";" in line or len(line) > _MAX_CHUNK_LINE:
                raise BadHttpMessage("A chunk has an extension")
            if end < 0:
                self._line, self._skip = line, 0
                return
            size = int(line, 16)
            self._line, self._ended = b"", size == 0
            at = end + 1 + size + len(b"\r\n")
        self._skip = at - len(data)


def check_message(message: RawRequestMessage) -> None:
    """Raise BadHttpMessage for a request that is to be refused whatever it asks for."""
    headers, coding = message.headers, message.headers.get("Transfer-Encoding")
    if message.version not in (HttpVersion10, HttpVersion11) or message.method == "CONNECT":
        raise BadHttpMessage("The version or method is not served here")
    if coding is not None and (coding.lower() != "chunked" or message.version == HttpVersion10):
        raise BadHttpMessage("The Transfer-Encoding is not served here")
    if any(len(headers.getall(name, ())) > 1 for name in _SINGLE):
        raise BadHttpMessage(f"One of {', '.join(_SINGLE)} is given more than once")
    try:
        "".join((message.path, *headers.values())).encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8 are half characters here
        raise BadHttpMessage("The path or a header is not UTF-8") from None
