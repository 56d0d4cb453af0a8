"""The `http` channel: one POST per envelope."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from consumers.channels.json_body import json_or_failed
from dispatcher.envelope import Envelope, decode_message
from dispatcher.errors import DECODING_ERRORS, InvalidInput
from dispatcher.outcome import ALL_SENT, RETRY, Outcome, Report, Verdict, sound_text
from dispatcher.verdicts import error_text

ANSWER_LIMIT = 1024 * 1024
"""Bytes of an answer that are read."""
REASON_LIMIT = 200
"""Characters of an answer, or of the provider's reason, that go into a reason."""
LONGEST_RETRY_AFTER_S = 24 * 3600.0
MAX_FAULTS = 50
"""Maximum kinds of faults in answers that are logged."""
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
    target (any more), so it never is. A field of another type changes nothing of the failure."""

    target: str | int
    reason: Any = ""
    retry: Any = False
    invalid: Any = False


class Answer(msgspec.Struct, frozen=True):
    """The fields of a 2xx answer; others are ignored. failed: Failures, each read on its own."""

    failed: list[msgspec.Raw] = []


class HttpChannel:
    """2xx: sent, except the targets under `failed` in a JSON answer. No connection, no answer in time, 408, 425, 429,
    5xx and 3xx: tried again, not before Retry-After if there is one. Other 4xx: failed, with the status and the
    beginning of the answer as the reason. What cannot be read of an answer changes nothing: the status decides."""

    batch_limit = 1

    def __init__(self, settings: Mapping[str, Any], wall_s: Callable[[], float] = time.time) -> None:
        """Raises InvalidInput."""
        self._settings = _checked(settings)
        self.name = self._settings.name
        self.timeout_s = self._settings.timeout_s
        self.concurrency = self._settings.concurrency
        self._url = self._settings.url or ""
        self._wall_s = wall_s
        self._answers = msgspec.json.Decoder(Answer)
        self._failures = msgspec.json.Decoder(Failure)
        self._faults: set[str] = set()
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
        body = json_or_failed(partial(self._body, envelope, tier))
        if isinstance(body, Report):
            return body
        try:
            async with self._session.post(self._url, data=body, allow_redirects=False) as answer:
                return self._report(envelope, answer, await _read(answer.content))
        except TimeoutError:
            return _again(f"no answer within {self.timeout_s:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return _again(error_text(error)[:REASON_LIMIT])

    def _body(self, envelope: Envelope, tier: str) -> dict[str, Any]:
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
        return body

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
        except DECODING_ERRORS as error:
            self._warn(f"an answer cannot be read, all its targets count as sent ({str(error)[:REASON_LIMIT]})")
            return ALL_SENT
        return self._exceptions(envelope.targets, failed) if failed else ALL_SENT

    def _exceptions(self, targets: Sequence[str], failed: Sequence[msgspec.Raw]) -> Report:
        """Map failures to targets. A target that is in the envelope twice failed twice; an unknown one is ignored."""
        failures = [failure for failure in map(self._failure, failed) if failure is not None]
        verdicts = {str(failure.target): Verdict(_code(failure), _reason(failure.reason)) for failure in failures}
        exceptions = {index: verdicts[target] for index, target in enumerate(targets) if target in verdicts}
        if not verdicts.keys() <= set(targets):
            self._warn("an answer names failed targets that were not in the request; they are ignored")
        return Report(exceptions=exceptions) if exceptions else ALL_SENT

    def _failure(self, one: msgspec.Raw) -> Failure | None:
        try:
            return self._failures.decode(one)
        except DECODING_ERRORS as error:
            self._warn(f"an entry under `failed` cannot be read and is ignored ({str(error)[:REASON_LIMIT]})")
            return None

    def _warn(self, fault: str) -> None:
        """Log what is wrong with the provider's answers, each kind once."""
        if fault not in self._faults and len(self._faults) < MAX_FAULTS:
            self._faults.add(fault)
            _log.warning("Channel %s: %s. (Logged once.)", self.name, fault)


def _code(failure: Failure) -> int:
    if _is_true(failure.invalid):
        return int(Outcome.INVALID)
    return RETRY if _is_true(failure.retry) else int(Outcome.FAILED)


def _is_true(value: object) -> bool:
    return value == 1 or (isinstance(value, str) and value.lower() in ("true", "yes", "1"))


def _reason(value: object) -> str:
    return "" if value is None else sound_text(value)[:REASON_LIMIT]


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
        moment = parsedate_to_datetime(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _again(reason: str, after_s: float | None = None) -> Report:
    return Report(Verdict(RETRY, reason, after_s))


async def _read(content: aiohttp.StreamReader) -> bytes:
    """Return the body up to the limit, or as much as came before it broke off: the status has already decided."""
    chunks, left = [], ANSWER_LIMIT
    try:
        while left > 0 and (chunk := await content.read(left)):
            chunks.append(chunk)
            left -= len(chunk)
    except (aiohttp.ClientError, ConnectionError) as error:
        _log.debug("An answer broke off: %s", error_text(error))
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
