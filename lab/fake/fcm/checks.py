"""Checks of a message as FCM makes them. Each problem names the field."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dispatcher.channels.fcm import FcmSpec
from dispatcher.channels.fcm_answers import TOKEN
from dispatcher.channels.rules.fcm import TARGET_FIELDS, refusals
from dispatcher.channels.spec import NO_SUCH_FIELD
from dispatcher.channels.verdict_table import Answer
from dispatcher.model.errors import DECODING_ERRORS

_TOP = {"message", "validate_only"}
_token_problem = FcmSpec().check_target
_decode = msgspec.json.Decoder().decode


def parse(body: bytes) -> dict[str, Any] | Answer:
    """Return the request, or the answer to one that is no JSON object with a message."""
    try:
        document = _decode(body)
    except DECODING_ERRORS:
        return _refusal("", "Invalid JSON payload received. It is not JSON.")
    if not isinstance(document, dict) or not isinstance(document.get("message"), dict):
        return _refusal("message", "Invalid JSON payload received. There is no object 'message'.")
    if not _TOP.issuperset(document):
        return _unknown(next(name for name in document if name not in _TOP))
    if not isinstance(document.get("validate_only", False), bool):
        return _refusal("validate_only", "Invalid value at 'validate_only' (TYPE_BOOL)")
    return document


def problem_of(message: Mapping[str, Any]) -> Answer | None:
    """Return the answer to a message that FCM refuses."""
    return next(_problems(message), None)


def _problems(message: Mapping[str, Any]) -> Iterator[Answer]:
    for found in refusals(message):
        if found.problem == NO_SUCH_FIELD:
            place, _, name = found.field.rpartition(".")
            yield _unknown(name, place)
        yield _refusal(found.field, f"Invalid value at {found.field!r}: {found.problem}")
    yield from _target_problems(message)


def _target_problems(message: Mapping[str, Any]) -> Iterator[Answer]:
    given = [name for name in TARGET_FIELDS if name in message]
    if len(given) != 1:
        yield _refusal("message", "Recipient of the message is not set, or more than one is.")
    if given != ["token"]:
        yield _refusal("message", "This fake sends to registration tokens only.")
    token = message["token"]
    if not isinstance(token, str):
        yield _refusal("message", "Invalid value at 'message.token' (TYPE_STRING)")
    if _token_problem(token):
        yield Answer(status=400, detail=TOKEN)


def _unknown(name: object, place: str = "") -> Answer:
    at = f" at {place!r}" if place else ""
    return _refusal(place or "message", f"Invalid JSON payload received. Unknown name {name!r}{at}: Cannot find field.")


def _refusal(field: str, text: str) -> Answer:
    return Answer(status=400, detail=field, reason=text)
