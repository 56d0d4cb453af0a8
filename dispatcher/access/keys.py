"""Keys of the HTTP API: `flk_ID_SECRET`. The secret has 256 bits; only its SHA-256 is stored.

A random secret needs no slow hash: nobody can try 2^256 of them (OWASP Password Storage Cheat Sheet is about passwords
that people choose).
"""

import re
import secrets
from hashlib import sha256
from hmac import compare_digest
from typing import Annotated, NamedTuple, Self

import msgspec

from dispatcher.access.principal import Principal, Scope, check_rights
from dispatcher.model.errors import DECODING_ERRORS, Malformed

_ID_BYTES, _SECRET_BYTES = 6, 32
_TOKEN = re.compile(r"flk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)


class NewKey(NamedTuple):
    """A key at the only moment when its secret is known."""

    token: str
    """The text for the user: `flk_ID_SECRET`."""
    id: str
    key: "AccessKey"


class AccessKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key as it is stored under its id."""

    scopes: frozenset[Scope]
    digest: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
    """SHA-256 of the secret, in hexadecimal digits."""
    created_ms: int
    app: str = ""
    """Empty: every app."""
    ends_ms: int = 0
    """Wall time from which it is refused; 0: never."""
    revoked_ms: int = 0
    """Wall time when it was revoked; 0: it was not."""

    @classmethod
    def create(cls, app: str, scopes: frozenset[Scope], now_ms: int, ends_ms: int = 0) -> NewKey:
        """Make a key. Raises InvalidInput for rights that no key may have."""
        check_rights(app, scopes)
        id_, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
        key = cls(app=app, scopes=scopes, digest=_digest(secret), created_ms=now_ms, ends_ms=ends_ms)
        return NewKey(f"flk_{id_}_{secret}", id_, key)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a stored key. Raises Malformed."""
        try:
            return msgspec.json.decode(text, type=cls)
        except DECODING_ERRORS as error:
            raise Malformed(f"its key is not readable: {error}") from error

    @property
    def text(self) -> str:
        """The stored form."""
        return msgspec.json.encode(self, order="deterministic").decode()

    def state(self, now_ms: int) -> str:
        """Return `live`, `ended` or `revoked`."""
        if self.revoked_ms:
            return "revoked"
        return "ended" if 0 < self.ends_ms <= now_ms else "live"

    def revoked(self, now_ms: int) -> Self:
        """Return the key once it is revoked."""
        return msgspec.structs.replace(self, revoked_ms=self.revoked_ms or now_ms)

    def fits(self, secret: str) -> bool:
        """Return whether this is the key's secret, in constant time."""
        return compare_digest(_digest(secret), self.digest)

    def principal(self, id_: str) -> Principal:
        """Return who asks with the key."""
        return Principal(kind="key", name=id_, app=self.app, scopes=self.scopes)


def id_and_secret(token: str) -> tuple[str, str] | None:
    """Return the parts of a key; None for a text that is none."""
    parts = _TOKEN.fullmatch(token)
    return (parts[1], parts[2]) if parts else None


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
