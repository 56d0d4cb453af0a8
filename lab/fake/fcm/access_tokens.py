"""Google's token endpoint: a signed request of a service account in, an access token out."""

import secrets
import time
from collections.abc import Callable
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from lab.fake.messages import Reply, Request, json_reply
from lab.fake.signed_tokens import read_token

_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_SCOPES = {
    "https://www.googleapis.com/auth/firebase.messaging",
    "https://www.googleapis.com/auth/cloud-platform",
}
_GOOGLE = "https://oauth2.googleapis.com/token"
"""The audience that google-auth names, whatever the account's token_uri."""
_MAX_LIFETIME_S = 3_600
_SKEW_S = 300
_BYTES = 750  # access tokens of service accounts have about 1,000 characters


class AccessTokens:
    """Tokens of one service account."""

    def __init__(self, key: RSAPublicKey, email: str, token_uri: str, now_s: Callable[[], float] = time.time) -> None:
        self._key, self._email, self._now_s = key, email, now_s
        self.token_uri = token_uri
        self._ends_s: dict[str, float] = {}

    def grant(self, request: Request, lifetime_s: int) -> Reply:
        """Answer a request for a token."""
        form = {name: values[-1] for name, values in parse_qs(request.body.decode("utf-8", "replace")).items()}
        if form.get("grant_type") != _GRANT:
            return _error("unsupported_grant_type", f"Invalid grant_type: {form.get('grant_type', '')}")
        problem = self._problem(form.get("assertion", ""))
        if problem:
            return _error("invalid_grant", problem)
        return json_reply(
            200, {"access_token": self.issue(lifetime_s), "expires_in": lifetime_s, "token_type": "Bearer"}
        )

    def issue(self, lifetime_s: int) -> str:
        """Return a new token."""
        token = f"ya29.c.{secrets.token_urlsafe(_BYTES)}"
        self._ends_s[f"Bearer {token}"] = self._now_s() + lifetime_s
        return token

    def accepts(self, authorization: str) -> bool:
        """Return whether a header holds a token that is still good."""
        return self._now_s() < self._ends_s.get(authorization, 0.0)

    def expire(self) -> int:
        """End all tokens now. Returns their number."""
        count = len(self._ends_s)
        self._ends_s.clear()
        return count

    def _problem(self, assertion: str) -> str:
        """Return what is wrong with a signed request; empty if nothing is."""
        token = read_token(assertion, self._verify)
        if token is None:
            return "Invalid JWT Signature."
        header, claims = token
        now_s, issued_s, ends_s = self._now_s(), claims.get("iat"), claims.get("exp")
        if header.get("alg") != "RS256" or claims.get("aud") not in (self.token_uri, _GOOGLE):
            return f"Invalid JWT: alg must be RS256, aud {self.token_uri}."
        if claims.get("iss") != self._email:
            return "Invalid grant: account not found"
        if not isinstance(issued_s, int) or not isinstance(ends_s, int):
            return "Invalid JWT: iat and exp are required."
        if not (issued_s - _SKEW_S <= now_s < ends_s) or ends_s - issued_s > _MAX_LIFETIME_S:
            return "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
        return (
            "" if _SCOPES & set(str(claims.get("scope", "")).split()) else "Invalid OAuth scope or ID token audience."
        )

    def _verify(self, signature: bytes, signed: bytes) -> None:
        self._key.verify(signature, signed, PKCS1v15(), SHA256())


def _error(code: str, text: str) -> Reply:
    return json_reply(400, {"error": code, "error_description": text})
