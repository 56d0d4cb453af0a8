"""How the Apple Push Notification service is asked: provider tokens, the same on all workers, or a certificate."""

import base64
from typing import Any

import msgspec

from backends.extras import require_packages
from consumers.delivery.http2.port import Headers, HttpRequest, HttpResponse
from consumers.delivery.http2.settings import ClientCertificate
from consumers.delivery.push.credentials import Credential
from consumers.delivery.push.mangled import kind_of
from consumers.delivery.push.provider import Authorization, Provider
from consumers.delivery.settings import ApnsApp, ApnsChannelSettings
from dispatcher.channels import apns_answers
from dispatcher.channels.apns import TOPIC_SUFFIXES, ApnsSpec, apns_id
from dispatcher.channels.rules.apns import PRIORITY, PUSH_TYPE
from dispatcher.channels.verdict_table import Answer
from dispatcher.model.errors import InvalidInput
from dispatcher.wire.envelope import Envelope

URLS = {"production": "https://api.push.apple.com", "sandbox": "https://api.sandbox.push.apple.com"}
SLOT_S = 1_800
"""A token is valid for an hour and may be replaced every 20 minutes. All workers make the same one in each half hour,
without talking to each other, since the signature is deterministic (RFC 6979)."""
LIFETIME_S = 3_600
SKEW_S = 300
"""How far a clock may be set back before a token counts as one of the future."""
NO_TARGET = "0" * 64
_TOPIC = "apns-topic"
_BYTES = 32
"""Length of each of the two numbers of a P-256 signature."""


class ApnsProvider(Provider):
    """Asks APNs."""

    settings = ApnsChannelSettings
    spec = ApnsSpec()
    target_in_path = True
    first_alone = True
    connections = 1
    streams = 1_000
    too_large = Answer(status=413, code="PayloadTooLarge", reason="PayloadTooLarge")
    malformed_target = Answer(status=400, code="BadDeviceToken", reason="BadDeviceToken")

    def __init__(self, app: ApnsApp) -> None:
        """Raises Missing without fairlane[push]."""
        require_packages("push", "cryptography")
        self._app = app
        self._url = (app.url or URLS[app.environment]).rstrip("/")

    def certificate(self, credential: Credential) -> ClientCertificate | None:
        """Return the credential if it is a certificate with its key."""
        return ClientCertificate(credential.secret) if b"-----BEGIN CERTIFICATE" in credential.secret else None

    def authorize(self, credential: Credential, wall_s: float) -> Authorization:
        """Make the provider token of this half hour."""
        app = self._app
        slot_s = int(wall_s) // SLOT_S * SLOT_S
        headers: Headers = ((_TOPIC, app.topic),)
        ends_s = float(slot_s + LIFETIME_S)
        if self.certificate(credential) is None:
            headers = (("authorization", f"bearer {_token(credential, app, slot_s)}"), *headers)
        else:
            ends_s = min(ends_s, _end_of_certificate(credential, wall_s))
        return Authorization(
            url=f"{self._url}/3/device/",
            headers=headers,
            version=credential.version,
            from_s=slot_s - SKEW_S,
            renew_s=slot_s + SLOT_S,
            ends_s=ends_s,
        )

    def joined(self, proof: Headers, message: Headers, /) -> Headers:
        """Return all headers, with the topic that the push type asks for."""
        suffix = TOPIC_SUFFIXES.get(str(dict(message).get(PUSH_TYPE)), "")
        topics = {name: value.removesuffix(suffix) + suffix for name, value in proof if name == _TOPIC}
        return (*(header for header in proof if header[0] != _TOPIC), *topics.items(), *message)

    def read(self, response: HttpResponse) -> Answer:
        return apns_answers.read_answer(response.status, response.body, response.header("apns-id") or "")

    def took(self, response: HttpResponse) -> bool:
        return apns_answers.is_id(response.header("apns-id") or "")

    def id_in(self, response: HttpResponse) -> str:
        return response.header("apns-id") or ""

    def own_headers(self, envelope: Envelope, index: int) -> Headers:
        position = envelope.position(index)
        return (("apns-id", apns_id(envelope.task, envelope.writer, envelope.sequence, position)),)

    def dry_run(self, authorization: Authorization, target: str | None) -> HttpRequest:
        """APNs has no dry run, so a device gets a notification without a text, and only at once."""
        headers = {PUSH_TYPE: "background", PRIORITY: "5", "apns-expiration": "0"}
        return HttpRequest(
            url=authorization.url + (target or NO_TARGET),
            body=b'{"aps":{"content-available":1}}',
            headers=(*authorization.headers, *headers.items()),
        )


def _token(credential: Credential, app: ApnsApp, issued_s: int) -> str:
    """Return the token, a JSON Web Token signed with ES256 (RFC 7518)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    if not app.key_id or not app.team_id:
        raise InvalidInput("The app has no key_id or no team_id.", "Set both, as Apple's console shows them.")
    signed = f"{_part({'alg': 'ES256', 'kid': app.key_id})}.{_part({'iss': app.team_id, 'iat': issued_s})}"
    signature = _key(credential).sign(signed.encode(), ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    numbers = decode_dss_signature(signature)
    return f"{signed}.{_base64(b''.join(number.to_bytes(_BYTES) for number in numbers))}"


def _end_of_certificate(credential: Credential, wall_s: float) -> float:
    """Return the Unix time at which it expires. A connection with a wrong one would fail as one to a provider that is
    down does."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509 import load_pem_x509_certificate

    try:
        certificate = load_pem_x509_certificate(credential.secret)
        key = load_pem_private_key(credential.secret, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidInput(
            "APNs' certificate or its private key cannot be read.",
            "Put both into one PEM file, the private key without a password.",
        ) from error
    if key.public_key() != certificate.public_key():
        raise InvalidInput(
            "The private key is not that of APNs' certificate.", "Put the key of this certificate there."
        )
    end = certificate.not_valid_after_utc
    if end.timestamp() <= wall_s:
        raise InvalidInput(f"APNs' certificate has expired on {end:%Y-%m-%d}.", "Renew it in Apple's console.")
    return end.timestamp()


def _key(credential: Credential) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key: Any
    try:
        key = load_pem_private_key(credential.secret, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        cause = f"APNs' credential is not a P-256 key: {kind_of(credential.secret)}."
        raise InvalidInput(cause, "Use the .p8 file that Apple's console offers.")
    return key


def _part(fields: dict[str, Any]) -> str:
    return _base64(msgspec.json.encode(fields))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
