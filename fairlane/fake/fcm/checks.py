"""Checks of a message as FCM makes them. Each problem names the field."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dispatcher.channels.fcm import (
    MAX_PAYLOAD_BYTES,
    MAX_TTL_S,
    MESSAGE_FIELDS,
    OBJECT_FIELDS,
    RESERVED_DATA,
    TARGET_FIELDS,
    FcmSpec,
    priority_problem,
    ttl_problem,
)
from dispatcher.channels.fcm_answers import TOKEN
from dispatcher.channels.verdict_table import Answer
from dispatcher.model.errors import DECODING_ERRORS

_TOP = {"message", "validate_only"}
_token_problem = FcmSpec().check_target
_encode = msgspec.json.Encoder().encode
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
        return _unknown(next(name for name in document if name not in _TOP), "")
    if not isinstance(document.get("validate_only", False), bool):
        return _refusal("validate_only", "Invalid value at 'validate_only' (TYPE_BOOL)")
    return document


def problem_of(message: Mapping[str, Any]) -> Answer | None:
    """Return the answer to a message that FCM refuses."""
    return next(_problems(message), None)


def _problems(message: Mapping[str, Any]) -> Iterator[Answer]:
    if not MESSAGE_FIELDS.issuperset(message):
        yield _unknown(next(name for name in message if name not in MESSAGE_FIELDS), " at 'message'")
    for name in OBJECT_FIELDS:
        if not isinstance(message.get(name, {}), dict):
            yield _refusal(f"message.{name}", f"Invalid value at 'message.{name}' (TYPE_MESSAGE)")
    yield from _target_problems(message)
    if "data" in message:
        yield from _data_problems(message["data"])
    if "android" in message:
        yield from _android_problems(message["android"])
    size = len(_encode({name: value for name, value in message.items() if name != "token"}))
    if size > MAX_PAYLOAD_BYTES:
        yield _refusal("message", f"Android message is too big: {size} bytes; at most {MAX_PAYLOAD_BYTES} are allowed.")


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


def _data_problems(data: Mapping[str, Any]) -> Iterator[Answer]:
    for key, value in data.items():
        if not isinstance(value, str):
            yield _refusal(f"message.data.{key}", f"Invalid value at 'message.data.{key}' (TYPE_STRING)")
        if RESERVED_DATA.fullmatch(key):
            yield _refusal(f"message.data.{key}", f"Invalid data payload key: {key}")


def _android_problems(android: Mapping[str, Any]) -> Iterator[Answer]:
    if "ttl" in android and ttl_problem(android["ttl"]):
        yield _refusal("message.android.ttl", f"Invalid ttl: a duration from 0s to {MAX_TTL_S}s such as 3.5s")
    if priority_problem(android.get("priority", "NORMAL")):
        yield _refusal("message.android.priority", "Invalid value at 'message.android.priority': NORMAL or HIGH")


def _unknown(name: object, place: str) -> Answer:
    return _refusal("message", f"Invalid JSON payload received. Unknown name {name!r}{place}: Cannot find field.")


def _refusal(field: str, text: str) -> Answer:
    return Answer(status=400, detail=field, reason=text)
