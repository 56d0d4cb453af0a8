"""JSON web tokens that clients sign."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature

from dispatcher.model.errors import DECODING_ERRORS


class SignedToken(NamedTuple):
    """A token whose signature is good."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]


def read_token(text: str, verify: Callable[[bytes, bytes], None]) -> SignedToken | None:
    """Return the token; None if it is none, or its signature is wrong.

    verify: takes the signature and the signed bytes; raises InvalidSignature.
    """
    try:
        header, claims, signature = text.split(".")
        verify(_decoded(signature), f"{header}.{claims}".encode())
        parts = [json.loads(_decoded(part)) for part in (header, claims)]
    except (*DECODING_ERRORS, InvalidSignature):
        return None
    return SignedToken(*parts) if all(isinstance(part, dict) for part in parts) else None


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))
