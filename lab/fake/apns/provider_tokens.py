"""Provider tokens of APNs: their form, signature, age, and how often they change."""

import time
from collections.abc import Callable
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from lab.fake.messages import ClientFacts
from lab.fake.rules import FakeRules
from lab.fake.signed_tokens import read_token

_SKEW_S = 300
_MAX_KNOWN = 1_000


class ProviderKey(NamedTuple):
    """A signing key of a team."""

    key: EllipticCurvePublicKey
    key_id: str
    team_id: str


class ProviderTokens:
    """Tells good provider tokens from others."""

    def __init__(self, key: ProviderKey, now_s: Callable[[], float] = time.time) -> None:
        self._key, self._now_s = key, now_s
        self._issued_s: dict[str, float | None] = {}
        self._revoked_s = float("-inf")

    def problem(self, authorization: str, peer: ClientFacts, rules: FakeRules) -> str:
        """Return the reason to refuse a header; empty if there is none."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            return "MissingProviderToken"
        issued_s, now_s = self._issued(token), self._now_s()
        if issued_s is None or issued_s > now_s + _SKEW_S:
            return "InvalidProviderToken"
        if now_s - issued_s >= rules.token_lifetime_s or issued_s <= self._revoked_s:
            return "ExpiredProviderToken"
        if peer.token and token != peer.token and now_s - peer.token_since_s < rules.token_update_s:
            return "TooManyProviderTokenUpdates"
        if token != peer.token:
            peer.token, peer.token_since_s = token, now_s
        return ""

    def expire(self) -> int:
        """Treat tokens issued until now as too old. Returns the number of those seen."""
        count = len(self._issued_s)
        self._issued_s.clear()
        self._revoked_s = self._now_s()
        return count

    def _issued(self, token: str) -> float | None:
        """Return the time a token was issued; None if it is not one of our key."""
        if token not in self._issued_s:
            if len(self._issued_s) >= _MAX_KNOWN:
                self._issued_s.clear()
            self._issued_s[token] = self._issued_by_us(token)
        return self._issued_s[token]

    def _issued_by_us(self, text: str) -> float | None:
        token = read_token(text, self._verify)
        if token is None:
            return None
        signer = (token.header.get("alg"), token.header.get("kid"), token.claims.get("iss"))
        issued_s = token.claims.get("iat")
        is_ours = signer == ("ES256", self._key.key_id, self._key.team_id)
        return issued_s if is_ours and isinstance(issued_s, int | float) else None

    def _verify(self, signature: bytes, signed: bytes) -> None:
        if len(signature) != 64:
            raise InvalidSignature
        pair = encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
        self._key.key.verify(pair, signed, ECDSA(SHA256()))
