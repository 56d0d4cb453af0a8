"""Determine the outcomes of targets from the answers of the `http` channel's provider."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import aiohttp
import msgspec

from consumers.delivery.retry_after import retry_after_s
from dispatcher.model.errors import DECODING_ERRORS
from dispatcher.model.shown import beginning
from dispatcher.verdicts import error_text
from dispatcher.wire.outcome import ALL_SENT, RETRY, UNKNOWN, UNSENT, Outcome, Report, Verdict, sound_text

ANSWER_LIMIT = 1024 * 1024
"""Maximum bytes read from an answer."""
REASON_LIMIT = 200
"""Maximum length of the text from an answer, or from the provider's reason, that is put into a reason."""
_TEXT_BYTES = 8_192
"""Bytes of an answer of which the text is made."""
MAX_FAULTS = 50
"""Maximum kinds of faults in answers that are logged."""
_RETRIED = frozenset({408, 425, 429})
"""Statuses that are retried besides 3xx (the address is wrong, which can be fixed) and 5xx."""
_FORM_HINT = 'HttpAnswer with an empty body or {"failed": [...]}, or set strict_answers of the channel to false.'
_log = logging.getLogger(__name__)


class HttpAnswer(NamedTuple):
    """The provider's HTTP answer, as far as it was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_complete: bool = True
    """False if the answer broke off."""


class FailedTarget(msgspec.Struct, frozen=True):
    """A target that the provider did not accept. It failed even if one of the other fields has another type."""

    target: str | int
    reason: Any = ""
    retry: Any = False
    """Whether another attempt is worthwhile."""
    invalid: Any = False
    """Whether the target does not exist (any more), so that another attempt is never worthwhile."""


class _WrongForm(Exception):
    """A 2xx answer breaks the agreed format. args: the kind of fault, and details of this one."""


class AnswerReader:
    """Turns answers into reports: by the status, and for 2xx by `{"failed": [...]}`, the FailedTargets.

    If `strict`, a 2xx answer that breaks the agreed format is a fault, and its targets fail. They are not retried: the
    provider would answer in the same way and may have sent each time. Only an answer that broke off is retried, since
    another attempt can find out more. If not `strict`, errors in an answer are ignored, and the status decides.
    """

    def __init__(self, channel: str, *, strict: bool) -> None:
        self._channel = channel
        self._strict = strict
        self._objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._lists = msgspec.json.Decoder(list[msgspec.Raw] | None)
        self._failures = msgspec.json.Decoder(FailedTarget)
        self._faults: set[str] = set()

    def report(self, targets: Sequence[str], answer: HttpAnswer, wall_s: float) -> Report:
        """Return the report on an envelope with these targets. `wall_s` is the current time."""
        status = answer.status
        if 200 <= status < 300:
            return self._accepted(targets, answer)
        reason = f"HTTP {status}: {_text(answer.body)}".rstrip(": ")
        if status in _RETRIED or not 400 <= status < 500:
            return Report(Verdict(RETRY, reason, retry_after_s(answer.headers, wall_s)))
        return Report(Verdict(int(Outcome.FAILED), reason))

    def _accepted(self, targets: Sequence[str], answer: HttpAnswer) -> Report:
        """Return the report on an envelope that the provider accepted except for the targets it names."""
        try:
            failed = self._failed(answer)
            return self._exceptions(targets, failed) if failed else ALL_SENT
        except _WrongForm as fault:
            kind, details = fault.args
            if self._strict:
                self._warn(f"a 2xx answer does not have the agreed form: {kind}. {_FORM_HINT}")
                reason = f"HTTP {answer.status}, but {kind}{details}"
                return Report(Verdict(int(Outcome.FAILED), reason)) if answer.is_complete else unanswered(reason)
            if answer.body.lstrip().startswith(b"{"):
                self._warn(f"an answer cannot be read, all its targets count as sent: {kind}.")
            return ALL_SENT

    def _failed(self, answer: HttpAnswer) -> list[msgspec.Raw]:
        """Return the entries under `failed`, each to be read on its own. Raises _WrongForm."""
        if not answer.is_complete:
            raise _WrongForm("the answer broke off", "")
        if len(answer.body) >= ANSWER_LIMIT:
            raise _WrongForm(f"the answer has {ANSWER_LIMIT:,} bytes or more", "")
        if not answer.body.strip():
            return []
        try:
            fields = self._objects.decode(answer.body)
        except msgspec.ValidationError as error:
            raise _WrongForm("the answer is not a JSON object", f": {_text(answer.body)}") from error
        except DECODING_ERRORS as error:
            raise _WrongForm("the answer is not JSON", f": {_text(answer.body)}") from error
        if fields and "failed" not in fields:
            raise _WrongForm(
                "the answer has no field that is known", beginning(f", only {', '.join(fields)}", REASON_LIMIT)
            )
        if fields:
            self._check_names(answer.body)
        try:
            return (self._lists.decode(fields["failed"]) or []) if fields else []
        except DECODING_ERRORS as error:
            raise _WrongForm("`failed` of the answer is not a list", f": {_text(answer.body)}") from error

    def _check_names(self, body: bytes) -> None:
        """Find a name that the answer or an entry has twice: readers differ in which of its values they take."""
        try:
            fields = json.loads(body, object_pairs_hook=tuple, parse_int=str)  # Python reads no integer of 5,000 digits
        except DECODING_ERRORS:
            self._fault("the answer cannot be read to its end")
            return
        lists = [value for name, value in fields if name == "failed" and isinstance(value, list)]
        for pairs in (fields, *(entry for entries in lists for entry in entries if isinstance(entry, tuple))):
            if len({name for name, _ in pairs}) < len(pairs):
                self._fault("an object of the answer has a name twice")
                return

    def _exceptions(self, targets: Sequence[str], failed: Sequence[msgspec.Raw]) -> Report:
        """Map failures to targets. A target that occurs twice in the envelope failed twice."""
        failures = [failure for failure in map(self._failure, failed) if failure is not None]
        verdicts = {str(failure.target): Verdict(_code(failure), _reason(failure.reason)) for failure in failures}
        exceptions = {index: verdicts[target] for index, target in enumerate(targets) if target in verdicts}
        if not verdicts.keys() <= set(targets):
            self._fault("the answer names failed targets that were not in the request")
        return Report(exceptions=exceptions) if exceptions else ALL_SENT

    def _failure(self, raw: msgspec.Raw) -> FailedTarget | None:
        try:
            return self._failures.decode(raw)
        except DECODING_ERRORS as error:
            self._fault(f"an entry under `failed` cannot be read ({beginning(str(error), REASON_LIMIT)})")
            return None

    def _fault(self, kind: str) -> None:
        """Handle a fault in one entry. If the channel is strict, it makes the whole answer a fault."""
        if self._strict:
            raise _WrongForm(kind, "")
        self._warn(f"{kind}; it is ignored.")

    def _warn(self, fault: str) -> None:
        """Log a fault in the provider's answers, each kind once."""
        if fault not in self._faults and len(self._faults) < MAX_FAULTS:
            self._faults.add(fault)
            _log.warning("Channel %s: %s (Logged once.)", self._channel, fault)


def _code(failure: FailedTarget) -> int:
    if _is_true(failure.invalid):
        return int(Outcome.INVALID)
    return RETRY if _is_true(failure.retry) else int(Outcome.FAILED)


def _is_true(value: object) -> bool:
    return value == 1 or (isinstance(value, str) and value.lower() in ("true", "yes", "1"))


def _reason(value: object) -> str:
    return "" if value is None else beginning(sound_text(value), REASON_LIMIT)


def _text(body: bytes) -> str:
    """Return the beginning of an answer on one line."""
    return beginning(" ".join(body[:_TEXT_BYTES].decode("utf-8", "replace").split()), REASON_LIMIT)


def unanswered(reason: str) -> Report:
    """Return the report of a request that the provider may have taken."""
    return Report(Verdict(UNKNOWN, reason))


def unsent(reason: str) -> Report:
    """Return the report of a request that the provider cannot have taken."""
    return Report(Verdict(UNSENT, reason))


async def read_answer(answer: aiohttp.ClientResponse, max_bytes: int) -> HttpAnswer:
    """Read the body up to a limit, or the part that arrived before it broke off."""
    chunks, remaining, is_complete = [], max_bytes, True
    try:
        while remaining > 0 and (chunk := await answer.content.read(remaining)):
            chunks.append(chunk)
            remaining -= len(chunk)
    except (aiohttp.ClientError, ConnectionError) as error:
        is_complete = False
        _log.debug("An answer broke off: %s", error_text(error))
    return HttpAnswer(answer.status, answer.headers, b"".join(chunks), is_complete)
