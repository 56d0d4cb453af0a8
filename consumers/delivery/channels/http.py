"""The `http` channel: one POST per envelope."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from consumers.delivery.channels.http_answer import AnswerReader, unsent
from consumers.delivery.channels.log import json_or_failed
from consumers.delivery.channels.posting import NoAnswer, Posting, make_posting
from consumers.delivery.settings import HttpChannelSettings
from dispatcher.model.errors import InvalidInput
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import Report

_HEADERS = {"content-type": "application/json", "accept": "application/json"}
_KEY = "idempotency-key"
_SECRET_PREFIX = "whsec_"
_SECRET_BYTES = range(24, 65)


class HttpChannel:
    """Posts each envelope to one address.

    2xx: sent, except the targets under `failed` in a JSON answer. 408, 425, 429, 5xx and 3xx: retried, not before
    Retry-After if there is one. No connection within half of the time limit: unsent. No answer in time, or one that
    broke off: unknown. Other 4xx: failed; the reason is the status and the beginning of the answer.
    """

    batch_limit = 1

    def __init__(self, settings: Mapping[str, Any], wall_s: Callable[[], float] = time.time) -> None:
        """Raises InvalidInput."""
        self.name = str(settings.get("name", "http"))
        self._settings = HttpChannelSettings.read(settings)
        if self._settings.url is None:
            raise InvalidInput("The http channel has no url.", "Set FAIRLANE_HTTP_URL.")
        self._url = self._settings.url
        self.timeout_s = self._settings.timeout_s
        self.concurrency = self._settings.concurrency
        self._wall_s = wall_s
        self._answers = AnswerReader(self.name, strict=self._settings.strict_answers)
        secret = self._settings.signing_secret
        self._key = None if secret is None else signing_key(secret.get_secret_value())
        self._posting: Posting | None = None

    async def open(self) -> None:
        client = self._settings.client
        self._posting = make_posting(client, self._url, self._fixed_headers(), self.timeout_s, self.concurrency)

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        if len(envelopes) == 1:
            return [await self._post(envelopes[0], tier)]
        return await asyncio.gather(*(self._post(envelope, tier) for envelope in envelopes))

    async def close(self) -> None:
        if self._posting is not None:
            await self._posting.close()
            self._posting = None

    # ------------------------------------------------------------- one POST
    async def _post(self, envelope: Envelope, tier: str) -> Report:
        if self._posting is None:
            return unsent("the channel is not open")
        body = json_or_failed(envelope, tier)
        if isinstance(body, Report):
            return body
        try:
            answer = await self._posting.post(body, self._headers(envelope, body))
        except NoAnswer as failure:
            return failure.report
        return self._answers.report(envelope.targets, answer, self._wall_s())

    def _fixed_headers(self) -> dict[str, str]:
        """Return the headers that all POSTs have: ours, and those of the settings, except those that differ in each."""
        settings = {name.lower(): value.get_secret_value() for name, value in self._settings.headers.items()}
        given = {**_HEADERS, **settings}
        own = {_KEY, *(() if self._key is None else signature_headers(self._key, "", 0, b""))}
        return {name: value for name, value in given.items() if name not in own}

    def _headers(self, envelope: Envelope, body: bytes) -> dict[str, str]:
        """Return the headers of a POST.

        The key is the envelope's identity: the same when the same attempt is posted again, another for the next
        attempt, which may have fewer targets.
        """
        key = ":".join(map(str, envelope.identity))
        signed = {} if self._key is None else signature_headers(self._key, key, int(self._wall_s()), body)
        return {_KEY: key, **signed}


def signing_key(secret: str) -> bytes:
    """Return the key in a secret: `whsec_` and the base64 of 24 to 64 bytes. Raises InvalidInput."""
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_SECRET_PREFIX) or len(key) not in _SECRET_BYTES:
        raise InvalidInput(
            "The signing secret of the http channel is not `whsec_` and the base64 of 24 to 64 bytes.",
            "Correct FAIRLANE_HTTP_SIGNING_SECRET. A new one: echo whsec_$(openssl rand -base64 32)",
        )
    return key


def signature_headers(key: bytes, message_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a body by the Standard Webhooks specification (HMAC-SHA256, `v1`). `seconds` is the
    current time since the epoch."""
    signed = b"%s.%d.%s" % (message_id.encode(), seconds, body)
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(seconds), "webhook-signature": f"v1,{signature}"}
