"""Requests, replies, and the port of a provider."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import msgspec

from dispatcher.channels.verdict_table import Answer, VerdictTable
from lab.fake.rules import FakeRules

JSON_TYPE = ("content-type", "application/json; charset=UTF-8")


class Request(NamedTuple):
    """A complete request."""

    method: str
    path: str
    """With its query, if any."""
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    has_repeated: bool = False
    """Whether a header occurs twice."""


class Reply(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Push(NamedTuple):
    """A request that the provider finds valid."""

    target: str
    message_id: str = ""
    """The client's name for the message; empty if it gave none."""
    dry_run: bool = False


@dataclass
class ClientFacts:
    """Facts about the client of a connection."""

    has_certificate: bool = False
    """Whether it showed a certificate of the fake's authority."""
    is_http2: bool = True
    trusted: bool = False
    """Whether its credentials were accepted once."""
    token: str = ""
    """Its last provider token."""
    token_since_s: float = 0.0


class FakeProvider(ABC):
    """Rules of one provider."""

    name: ClassVar[str]
    table: ClassVar[VerdictTable]
    side_paths: ClassVar[tuple[str, ...]] = ()
    """Paths of requests that are no pushes."""
    first_streams: ClassVar[int | None] = None
    """Streams of a connection until its client is trusted; None: as many as later."""

    @abstractmethod
    def side_reply(self, request: Request, rules: FakeRules, /) -> Reply:
        """Answer a request to a side path."""

    @abstractmethod
    def check(self, request: Request, peer: ClientFacts, rules: FakeRules) -> Push | Answer:
        """Return the push, or the answer to a request that the provider refuses."""

    @abstractmethod
    def over_quota(self, retry_after_s: int, /) -> Answer:
        """Return the answer once the quota is used up."""

    @abstractmethod
    def reply(self, answer: Answer, request: Request, /) -> Reply:
        """Write an answer as the provider does."""

    @abstractmethod
    def expire_tokens(self) -> int:
        """Accept none of the access tokens of before. Returns their number."""


def json_reply(status: int, value: object, *headers: tuple[str, str]) -> Reply:
    """Return a reply with a JSON body."""
    return Reply(status, msgspec.json.encode(value), (JSON_TYPE, *headers))


def strange_reply(answer: Answer) -> Reply:
    """Return the page of something that is not the provider."""
    page = (
        b"<html><body>It works!</body></html>" if answer.status == 200 else b"<html><body>No such page.</body></html>"
    )
    return Reply(answer.status, page, (("content-type", "text/html"), *retry_after(answer)))


def retry_after(answer: Answer) -> tuple[tuple[str, str], ...]:
    """Return the header that asks for a delay, if the answer does."""
    return () if answer.retry_after_s is None else (("retry-after", str(round(answer.retry_after_s))),)
