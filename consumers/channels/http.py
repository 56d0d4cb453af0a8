"""The `http` channel: one POST per envelope."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from dispatcher.envelope import Envelope, decode_message
from dispatcher.errors import InvalidInput
from dispatcher.outcome import ALL_SENT, RETRY, Outcome, Report, Verdict

ANSWER_LIMIT = 1024 * 1024
"""Bytes of an answer that are read."""
REASON_LIMIT = 200
"""Characters of an answer, or of the provider's reason, that go into a reason."""
LONGEST_RETRY_AFTER_S = 24 * 3600.0
_TRIED_AGAIN = frozenset({408, 425, 429})
"""Besides 3xx (the address is wrong, which can be mended) and 5xx."""
_log = logging.getLogger(__name__)


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """url: where to post. timeout_s: for the whole of one POST. concurrency: POSTs under way at once, and connections.
    headers: added to each POST."""

    url: str | None = None
    name: str = "http"
    timeout_s: float = 10.0
    concurrency: int = 64
    headers: dict[str, str] = {}


class Failure(msgspec.Struct, frozen=True):
    """A target that the provider did not take. retry: whether it is worth trying again; invalid: there is no such
    target (any more), so it never is."""

    target: str
    reason: str = ""
    retry: bool = False
    invalid: bool = False


class Answer(msgspec.Struct, frozen=True):
    """What a 2xx answer may say; all else in it is ignored."""

    failed: list[Failure] = []


class HttpChannel:
    """2xx: sent, except the targets under `failed` in a JSON answer. No connection, no answer in time, 408, 425, 429,
    5xx and 3xx: tried again, not before Retry-After if there is one. Other 4xx: failed, with the status and the
    beginning of the answer as the reason."""

    batch_limit = 1

    def __init__(self, settings: Mapping[str, Any], wall_s: Callable[[], float] = time.time) -> None:
        """Raises InvalidInput."""
        self._settings = _checked(settings)
        self.name = self._settings.name
        self.timeout_s = self._settings.timeout_s
        self.concurrency = self._settings.concurrency
        self._url = self._settings.url or ""
        self._wall_s = wall_s
        self._encoder = msgspec.json.Encoder()
        self._answers = msgspec.json.Decoder(Answer)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.concurrency, limit_per_host=0),
            timeout=aiohttp.ClientTimeout(total=self.timeout_s),
            headers={"Content-Type": "application/json", "Accept": "application/json", **self._settings.headers},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        return await asyncio.gather(*(self._post(envelope, tier) for envelope in envelopes))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # ------------------------------------------------------------- one POST
    async def _post(self, envelope: Envelope, tier: str) -> Report:
        if self._session is None:
            return _again("the channel is not open")
        try:
            async with self._session.post(self._url, data=self._body(envelope, tier), allow_redirects=False) as answer:
                return self._report(envelope, answer, await _read(answer.content))
        except TimeoutError:
            return _again(f"no answer within {self.timeout_s:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return _again(f"{type(error).__name__}: {error}"[:REASON_LIMIT])

    def _body(self, envelope: Envelope, tier: str) -> bytes:
        body: dict[str, Any] = {
            "task": envelope.task,
            "app": envelope.app,
            "tier": tier,
            "message": decode_message(envelope.message),
            "targets": envelope.targets,
            "sequence": envelope.sequence,
            "attempt": envelope.attempt,
        }
        if envelope.variables is not None:
            body["variables"] = envelope.variables
        return self._encoder.encode(body)

    def _report(self, envelope: Envelope, answer: aiohttp.ClientResponse, body: bytes) -> Report:
        if 200 <= answer.status < 300:
            return self._accepted(envelope, body)
        reason = f"HTTP {answer.status}: {_text(body)}".rstrip(": ")
        if answer.status in _TRIED_AGAIN or not 400 <= answer.status < 500:
            return _again(reason, retry_after_s(answer.headers, self._wall_s()))
        return Report(Verdict(int(Outcome.FAILED), reason))

    def _accepted(self, envelope: Envelope, body: bytes) -> Report:
        """The provider has taken the envelope, but for the targets it names. An answer that says nothing of the kind,
        or nothing that can be read, takes nothing back: trying again would send twice."""
        if not body.lstrip().startswith(b"{"):
            return ALL_SENT
        try:
            failed = self._answers.decode(body).failed
        except msgspec.MsgspecError as error:
            _log.warning("The answer to %s cannot be read (%s); all its targets count as sent", self.name, error)
            return ALL_SENT
        return _exceptions(envelope.targets, failed) if failed else ALL_SENT


def _exceptions(targets: Sequence[str], failed: Sequence[Failure]) -> Report:
    """A target that stands in the envelope twice failed twice; one that does not stand there is ignored."""
    verdicts = {failure.target: Verdict(_code(failure), failure.reason[:REASON_LIMIT]) for failure in failed}
    exceptions = {index: verdicts[target] for index, target in enumerate(targets) if target in verdicts}
    if len(exceptions) < len(verdicts):
        _log.warning("An answer names failed targets that were not in the request")
    return Report(exceptions=exceptions) if exceptions else ALL_SENT


def _code(failure: Failure) -> int:
    if failure.invalid:
        return int(Outcome.INVALID)
    return RETRY if failure.retry else int(Outcome.FAILED)


def retry_after_s(headers: Mapping[str, str], wall_s: float) -> float | None:
    """Seconds to wait by the Retry-After header (seconds, or a date, taken against the answer's own Date if it has
    one); None if there is none that makes sense."""
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        until_s = _date_s(value)
        if until_s is None:
            return None
        seconds = until_s - (_date_s(headers.get("Date", "")) or wall_s)
    if not math.isfinite(seconds):
        return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)


def _date_s(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _again(reason: str, after_s: float | None = None) -> Report:
    return Report(Verdict(RETRY, reason, after_s))


async def _read(content: aiohttp.StreamReader) -> bytes:
    """The body, up to the limit."""
    chunks, left = [], ANSWER_LIMIT
    while left > 0 and (chunk := await content.read(left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _text(body: bytes) -> str:
    """The beginning of an answer, on one line."""
    return " ".join(body[: 4 * REASON_LIMIT].decode("utf-8", "replace").split())[:REASON_LIMIT]


def _checked(settings: Mapping[str, Any]) -> HttpSettings:
    try:
        checked = msgspec.convert(dict(settings), HttpSettings)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The settings of the http channel are wrong: {error}.", "Correct them.") from error
    if checked.url is None:
        raise InvalidInput("The http channel has no url.", "Set FAIRLANE_HTTP_URL.")
    address = urlsplit(checked.url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise InvalidInput(f"The url of the http channel is not an http(s) address: {checked.url!r}.", "Correct it.")
    if checked.timeout_s <= 0 or checked.concurrency < 1:
        raise InvalidInput("timeout_s and concurrency of the http channel must be above 0.", "Correct them.")
    return checked
