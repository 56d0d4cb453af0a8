"""The port through which channels make requests: one method, its records, and what a failure says."""

import enum
from typing import Protocol

import msgspec

Headers = tuple[tuple[str, str], ...]
"""Names and values. Requests that share one tuple are prepared faster."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A POST."""

    url: str
    body: bytes
    headers: Headers = ()
    own_headers: Headers = ()
    """Headers of this request alone."""


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer, whatever its status."""

    status: int
    body: bytes
    """Its beginning, if the body is longer than the client keeps."""
    lines: tuple[bytes, ...]
    """Status lines and header lines as they came; those of the final answer come last."""

    def header(self, name: str) -> str | None:
        """Return the value of a header of the final answer; None if it has none."""
        wanted = name.lower().encode("ascii")
        for line in reversed(self.lines):
            found, colon, value = line.partition(b":")
            if not colon and line.startswith(b"HTTP/"):
                return None
            if colon and found.strip().lower() == wanted:
                return value.strip().decode("latin-1")
        return None


class Fate(enum.Enum):
    """How certain it is that a request without a complete answer had no effect."""

    NOT_TAKEN = "not taken"
    """The server cannot have acted on it: no server had all of it, or the server itself said that it refused it."""
    UNKNOWN = "unknown"
    """The server may have acted on it."""


class RequestFailed(Exception):
    """There is no complete answer."""

    def __init__(
        self,
        fate: Fate,
        reason: str,
        *,
        refused: bool = False,
        timed_out: bool = False,
        part: HttpResponse | None = None,
    ) -> None:
        """`refused`: the server runs and has refused this request, so another attempt may succeed at once. `part`: the
        beginning of an answer that broke off."""
        super().__init__(reason)
        self.fate = fate
        self.reason = reason
        self.refused = refused
        self.timed_out = timed_out
        self.part = part


class HttpClient(Protocol):
    """Makes requests."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request at most once and return the answer.

        Raises RequestFailed, also after the client's time limit. Raises InvalidInput for a request that HTTP cannot
        carry. A cancelled call may have reached the server.
        """
