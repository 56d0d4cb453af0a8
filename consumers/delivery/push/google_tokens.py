"""Access tokens of Google: of a service account, of workload identity federation, or of the machine itself."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any

import msgspec

from backends.bounded import ISSUER, open_http
from backends.extras import require_packages
from consumers.delivery.push.credentials import GOOGLE_DEFAULT, GOOGLE_FILE, Credential
from consumers.delivery.push.mangled import kind_of
from dispatcher.model.errors import DECODING_ERRORS, InvalidInput, Unreachable
from dispatcher.model.shown import beginning

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
ISSUER_TIMEOUT_S = 10.0
MAX_CAUSE = 300
"""Maximum characters of an issuer's own words."""
_TELLING = frozenset(range(400, 500)) - {408, 429}
"""Statuses of an issuer that say something about the credential. Other answers, also a success without a token, come
from one that is unwell, or from a gateway or a portal before it."""
_NONSENSE = (*DECODING_ERRORS, TypeError, LookupError, AttributeError)
"""Errors of google-auth for answers that it does not expect."""
_AWS = "urn:ietf:params:aws:token-type:aws4_request"
_OFFERED = "Use the file that the console offers for a service account."
_NEXT_STEPS = {
    "service_account": "Check that the key of this service account exists and is enabled, or create a new one.",
    "external_account": "Check the provider that the configuration names, its source of identity, and that it may "
    "act for the service account.",
    GOOGLE_DEFAULT: f"Give the machine or pod a service account, or let {GOOGLE_FILE} name the file of one. "
    "A machine needs the access scope cloud-platform.",
}


class AccessToken(msgspec.Struct, frozen=True, kw_only=True):
    """Proof for Google's services."""

    token: str
    left_s: float
    """Seconds for which it is valid."""
    project: str | None
    """The project that the credential or the machine belongs to, if it is known."""


class GoogleTokens:
    """Gets access tokens. All calls block for as long as the issuer takes."""

    def __init__(self, proxy: str | None, ca_file: str | None) -> None:
        """Raises Missing without fairlane[push]. `proxy`: for issuers, not for the machine's metadata server."""
        require_packages("push", "google.auth", "urllib3")
        self._proxy = proxy
        self._ca_file = ca_file
        self._status = 0
        """HTTP status of the last answer."""

    def get(self, credential: Credential) -> AccessToken:
        """Ask for a new token. Raises InvalidInput if there is none for this credential, Unreachable."""
        info = _json(credential)
        if "type" not in info:
            raise InvalidInput(f"FCM's credential has no `type`: {kind_of(credential.secret)}.", _OFFERED)
        kind = str(info["type"])
        self._status = 0
        with self._explained(kind):
            credentials, project = self._credentials(kind, info)
            self._refresh(credentials)
            if not credentials.token or not isinstance(credentials.token, str):
                raise ValueError("it names no token")
        return AccessToken(token=credentials.token, left_s=_seconds_left(credentials.expiry), project=project)

    def _credentials(self, kind: str, info: dict[str, Any]) -> tuple[Any, str | None]:
        """Return google-auth's object, and the project."""
        if kind == GOOGLE_DEFAULT:
            require_packages("push", "requests")  # google-auth asks the machine's metadata server with it
            import google.auth

            with self._requests(proxied=False) as request:
                found: tuple[Any, str | None] = google.auth.default(scopes=[SCOPE], request=request)
            return found
        return _from_file(kind, info), info.get("project_id")

    def _refresh(self, credentials: Any) -> None:
        is_machines = type(credentials).__module__.startswith("google.auth.compute_engine")
        with self._requests(proxied=not is_machines) as request:
            credentials.refresh(request)

    @contextmanager
    def _requests(self, *, proxied: bool) -> Iterator[Any]:
        """Yield what google-auth makes requests with."""
        import certifi
        import google.auth.transport.urllib3
        import urllib3

        options: dict[str, Any] = {
            "ca_certs": self._ca_file or certifi.where(),
            "timeout": ISSUER_TIMEOUT_S,
            "retries": urllib3.Retry(1, redirect=0, raise_on_redirect=False),  # a request holds a signed proof
        }
        proxy = self._proxy if proxied else None
        if proxy and proxy.startswith("socks"):
            raise InvalidInput(
                "FCM's access tokens cannot be got through a SOCKS proxy.",
                "Name a proxy with an address http:// or https://.",
            )
        with open_http(ISSUER, proxy=proxy, **options) as pool:
            yield self._noted(google.auth.transport.urllib3.Request(pool))

    @contextmanager
    def _explained(self, kind: str) -> Iterator[None]:
        """Turn the errors of google-auth into errors that name the cause and the next step."""
        import google.auth.exceptions

        try:
            yield
        except google.auth.exceptions.TransportError as error:
            raise _unreachable(error) from error
        except (google.auth.exceptions.GoogleAuthError, *_NONSENSE) as error:
            inner = error.args[0] if error.args else None
            if isinstance(inner, google.auth.exceptions.TransportError) and not _is_answered(inner):
                raise _unreachable(inner) from error
            if self._status and self._status not in _TELLING:
                cause = f"The issuer of FCM's access tokens answers with HTTP {self._status}: {_cause(error)}."
                raise Unreachable(cause, "Wait. If it goes on, check the proxy.") from error
            raise InvalidInput(f"No access token for FCM's credential: {_cause(error)}.", _NEXT_STEPS[kind]) from error

    def _noted(self, request: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that makes requests and notes the status of each answer."""

        def noted(*args: Any, **options: Any) -> Any:
            response = request(*args, **options)
            self._status = response.status
            return response

        return noted


def _from_file(kind: str, info: dict[str, Any]) -> Any:
    if kind == "service_account":
        from google.oauth2 import service_account

        key = str(info.get("private_key"))
        if "PRIVATE KEY-----" not in key or "-----END" not in key:
            raise InvalidInput(
                f"No access token for FCM's credential: its private_key is no key: {kind_of(key.encode())}.", _OFFERED
            )
        return service_account.Credentials.from_service_account_info(info, scopes=[SCOPE])
    if kind == "external_account":
        from google.auth import aws, identity_pool

        source = aws if info.get("subject_token_type") == _AWS else identity_pool
        return source.Credentials.from_info(info, scopes=[SCOPE])
    raise InvalidInput(
        f"FCM's credential is of the type {kind[:40]!r}.",
        "Use the JSON file of a service account, or the configuration of workload identity federation.",
    )


def _unreachable(error: Exception) -> Unreachable:
    cause = f"The issuer of FCM's access tokens cannot be reached: {_cause(error)}."
    return Unreachable(cause, "Check the network, proxy and ca_file.")


def _is_answered(error: Exception) -> bool:
    """Return whether the machine's metadata server has answered: then its answer is the second argument."""
    return len(error.args) > 1


def _cause(error: Exception) -> str:
    """Return what an error of google-auth says, without what it carries along."""
    inner = error.args[0] if error.args else ""
    if isinstance(inner, Exception):
        inner = getattr(inner, "reason", inner.args[0] if inner.args else "")  # urllib3 wraps the cause
    text = beginning(" ".join(str(inner).split()), MAX_CAUSE).rstrip(".")
    return text or type(error).__name__


def _json(credential: Credential) -> dict[str, Any]:
    try:
        return msgspec.json.decode(credential.secret, type=dict[str, Any])
    except DECODING_ERRORS as error:
        raise InvalidInput(f"FCM's credential is not a JSON object: {kind_of(credential.secret)}.", _OFFERED) from error


def _seconds_left(expiry: Any) -> float:
    """Return the seconds until a naive UTC time."""
    return 3_600.0 if expiry is None else max(1.0, expiry.replace(tzinfo=UTC).timestamp() - time.time())
