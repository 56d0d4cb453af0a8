"""Asks many URLs at once, each within the same limit. One that hangs costs the others nothing."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import urllib3

from dispatcher.model.shown import beginning

LIMIT_S = 2.0
"""How long an answer may take, from the first connection to its last byte."""
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Question:
    """One URL to ask."""

    key: tuple[str, str]
    """(node, document)."""
    url: str
    is_public: bool = False
    """Whether no credentials are sent: a bookie's interface has no authentication."""


@dataclass(frozen=True)
class NodeReply:
    """The body of an answer, or why there is none."""

    body: bytes = b""
    failure: str = ""


def ask_all(
    http: urllib3.PoolManager, questions: Iterable[Question], limit_s: float = LIMIT_S
) -> dict[tuple[str, str], NodeReply]:
    """Return a reply to each question after at most `limit_s`.

    Threads that are still waiting then are left behind; they end with their connections, and not with the program.
    """
    asked = list(questions)
    end_s = time.monotonic() + limit_s
    replies: dict[tuple[str, str], NodeReply] = {}
    threads = [
        threading.Thread(target=_ask, args=(http, question, end_s, replies), name="ask", daemon=True)
        for question in asked
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end_s - time.monotonic()))
    late = NodeReply(failure=f"no answer within {limit_s:g} s")
    return {question.key: replies.get(question.key, late) for question in asked}


def _ask(
    http: urllib3.PoolManager,
    question: Question,
    end_s: float,
    replies: dict[tuple[str, str], NodeReply],
) -> None:
    try:
        replies[question.key] = _get(http, question, end_s)
    except urllib3.exceptions.HTTPError as error:
        replies[question.key] = NodeReply(failure=_reason(error))
    except (OSError, ValueError) as error:
        replies[question.key] = NodeReply(failure=beginning(str(error), 200) or type(error).__name__)


def _get(http: urllib3.PoolManager, question: Question, end_s: float) -> NodeReply:
    left_s = max(0.05, end_s - time.monotonic())
    answer = http.request(
        "GET",
        question.url,
        headers={} if question.is_public else None,
        timeout=urllib3.Timeout(connect=left_s, read=left_s),
        retries=urllib3.Retry(2, connect=0, read=0, status=0, other=0, redirect=2, remove_headers_on_redirect=[]),
        preload_content=False,
    )
    try:
        if answer.status != 200:
            return NodeReply(failure=f"answered {answer.status}")
        return _body(answer, end_s)
    finally:
        answer.close()


def _body(answer: urllib3.BaseHTTPResponse, end_s: float) -> NodeReply:
    """Return the body; the pool bounds its bytes. Raises ValueError with the reason if it is not read to its end."""
    parts = []
    for part in answer.stream(_CHUNK):
        parts.append(part)
        if time.monotonic() > end_s:
            raise ValueError("an answer that does not end")
    return NodeReply(b"".join(parts))


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    """Return the innermost reason, without addresses of objects."""
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, urllib3.exceptions.TimeoutError) and not isinstance(
        reason, urllib3.exceptions.NewConnectionError
    ):
        return "no answer in time"
    return beginning(str(reason).split("): ")[-1], 200)
