"""Errors as problems of RFC 9457: what happened, and what to do next."""

import http
import logging
import re
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from dispatcher.model.errors import (
    AudienceMismatch,
    BeingSubmitted,
    FairlaneError,
    Forbidden,
    InvalidInput,
    LimitReached,
    NoKey,
    NotFound,
    NotReady,
    Refused,
    TaskEnded,
    TimedOut,
    Unreachable,
)

PAGE = "/docs/reference/problems.md"
CONTENT_TYPE = "application/problem+json"
REQUEST_ID = "X-Request-Id"
ID = web.RequestKey("request_id", str)
RETRY_S = 2
"""Seconds in Retry-After, where no better time is known."""
HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Server": "fairlane"}
"""Headers of every answer."""
_log = logging.getLogger(__name__)


class Kind(NamedTuple):
    """A kind of problem."""

    name: str
    """The last part of its `type`, an address in the reference."""
    status: int
    title: str


KINDS: dict[type[FairlaneError], Kind] = {
    NoKey: Kind("no-key", 401, "The request has no valid key"),
    Forbidden: Kind("forbidden", 403, "The key lacks a scope"),
    NotFound: Kind("not-found", 404, "There is no such thing"),
    LimitReached: Kind("limit-reached", 429, "A limit is reached for now"),
    AudienceMismatch: Kind("audience-mismatch", 409, "The id belongs to another task or audience"),
    BeingSubmitted: Kind("being-submitted", 409, "The task is being submitted elsewhere"),
    TaskEnded: Kind("task-ended", 409, "The task has ended"),
    Refused: Kind("refused", 409, "The request is refused"),
    InvalidInput: Kind("invalid-input", 422, "The request breaks a limit"),
    NotReady: Kind("not-ready", 503, "The service is not ready"),
    Unreachable: Kind("unreachable", 503, "A server does not answer"),
    TimedOut: Kind("timed-out", 503, "The answer took too long"),
}
"""Kinds by error; of several that fit an error, the first counts."""
BUSY = Kind("busy", 503, "The server has too much to do at once")
UNREADABLE = Kind("unreadable", 400, "The request cannot be read")
INTERNAL = Kind("internal", 500, "The service made a mistake")
MAX_DETAIL = 4_000
"""Characters of a detail; a client may have sent more than it should get back."""
_FIELD = re.compile(r"(?:task: )?([A-Za-z_][\w-]*(?:\.[\w-]+|\[\d+\])*): ", re.ASCII)
_POINTER = str.maketrans({".": "/", "[": "/", "]": None})


class ProblemError(Exception):
    """A request that is answered with a problem and nothing else."""

    def __init__(self, kind: Kind, detail: str, next_step: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail if len(detail) <= MAX_DETAIL else f"{detail[:MAX_DETAIL]} …"
        self.next_step = next_step
        self.headers = headers or {}

    def document(self, request: str) -> dict[str, Any]:
        """Return the document of the problem. request: the id of the request."""
        report = f"Report it with the request_id {request}." if self.kind is INTERNAL else ""
        steps = [self.next_step or report, *getattr(self, "__notes__", ())]  # a note names the task to go on with
        return {
            "type": f"{PAGE}#{self.kind.name}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "next_step": " ".join(steps).strip(),
            "errors": _errors(self.detail) if self.kind.status in (400, 422) else [],
            "request_id": request,
        }

    def response(self, request: str) -> web.Response:
        """Return the answer that the problem is. request: the id of the request."""
        headers, body = {**HEADERS, REQUEST_ID: request, **self.headers}, msgspec.json.encode(self.document(request))
        return web.Response(body=body, status=self.kind.status, headers=headers, content_type=CONTENT_TYPE)


def log_failure(request: web.Request) -> None:
    """Log the present exception with its request, but no secret that is in its path."""
    path = "/sign-in/..." if "secret" in request.match_info else request.raw_path
    _log.exception("request %s failed: %s %.200r", request[ID], request.method, path)


def new_id() -> str:
    """Return an id for a request."""
    return secrets.token_hex(8)


def of_status(status: int) -> Kind:
    """Return the kind of a problem that HTTP itself has a status for."""
    phrase = http.HTTPStatus(status).phrase
    return Kind(phrase.lower().replace(" ", "-"), status, phrase)


def problem_of(error: Exception) -> ProblemError:
    """Return the problem that an error is. One that is a mistake of the service tells nothing of the inside."""
    kind = next((kind for known, kind in KINDS.items() if isinstance(error, known)), INTERNAL)
    if isinstance(error, FairlaneError) and kind is not INTERNAL:
        headers = {"Retry-After": str(RETRY_S)} if error.retryable else {}
        headers |= {"WWW-Authenticate": "Bearer"} if isinstance(error, NoKey) else {}
        return ProblemError(kind, error.cause, error.next_step, headers)
    if isinstance(error, web.HTTPException):  # of the router: 404, 405
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return ProblemError(of_status(error.status), error.reason, headers=headers)
    if isinstance(error, ConnectionError | RequestPayloadError):
        return ProblemError(UNREADABLE, "The body broke off, or is no HTTP.")
    return error if isinstance(error, ProblemError) else ProblemError(INTERNAL, "The request failed.")


def _errors(detail: str) -> list[dict[str, str]]:
    """Return the fields that the lines of a detail name, as JSON pointers into the body; "" is the whole body."""
    lines = [(_FIELD.match(line), line) for line in detail.splitlines()]
    return [{"pointer": pointer_of(field[1]), "detail": line} for field, line in lines if field]


def pointer_of(field: str) -> str:
    """Return the JSON pointer to a field such as `targets[3].vars`; `body` is the whole body."""
    return "" if field == "body" else f"/{field.translate(_POINTER)}"
