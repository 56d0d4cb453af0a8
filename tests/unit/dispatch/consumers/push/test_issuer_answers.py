"""Whatever an issuer of access tokens or a metadata server answers, it is bounded, and no fault of the credential."""

import json
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from backends.bounded import Bounds
from consumers.delivery.push.credentials import Credential
from consumers.delivery.push.google_tokens import GoogleTokens
from dispatcher.model.errors import InvalidInput, Unreachable
from dispatcher.model.shown import without_credentials
from tests.unit.odd_server import JSON_OK, WEB, Behavior, OddServer, Talk, odd_server

MAX_SENT = 200 << 20
"""Most bytes that all tries of a call may take from a server: the bound of each, and what its socket holds."""
PEM = generate_private_key(65_537, 2_048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
NO_TOKENS: dict[str, Any] = {
    "no fields": {},
    "no token": {"expires_in": 3_600},
    "an empty token": {"access_token": "", "expires_in": 3_600},
    "a token that is no text": {"access_token": {"a": 1}, "expires_in": 3_600},
    "a token that is null": {"access_token": None, "expires_in": 3_600},
    "an endless life": {"access_token": "t", "expires_in": 10**30},
    "an infinite life": {"access_token": "t", "expires_in": float("inf")},
    "a life that is no number": {"access_token": "t", "expires_in": "soon"},
    "a life that is a list": {"access_token": "t", "expires_in": [1]},
}


def answering(document: Any) -> Behavior:
    return lambda talk: talk.sized(json.dumps(document).encode())


ANSWERS = {**WEB, **{name: answering(document) for name, document in NO_TOKENS.items()}}


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumers.delivery.push.google_tokens.ISSUER", Bounds(1 << 20, 0.5))
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda _s: None)
    monkeypatch.setattr("consumers.delivery.push.google_tokens.ISSUER_TIMEOUT_S", 0.5)


@pytest.fixture
def wrong(request: pytest.FixtureRequest) -> Iterator[OddServer]:
    """A server with the behavior of this name."""
    with odd_server(ANSWERS[request.param]) as server:
        yield server
    assert server.sent <= MAX_SENT


def account(server: OddServer) -> Credential:
    """Return a service account with this issuer."""
    fields = {
        "type": "service_account",
        "project_id": "demo",
        "private_key": PEM,
        "client_email": "sender@demo.iam.gserviceaccount.com",
        "token_uri": f"{server.address}/token",
    }
    return Credential(json.dumps(fields).encode())


@pytest.mark.parametrize("wrong", ANSWERS, indirect=True)
def test_an_issuer_that_answers_nonsense_is_down(wrong: OddServer) -> None:
    with pytest.raises(Unreachable, match="The issuer of FCM's access tokens"):
        GoogleTokens(None, None).get(account(wrong))


@pytest.mark.parametrize("wrong", ANSWERS, indirect=True)
def test_a_metadata_server_that_answers_nonsense_gives_no_token(
    wrong: OddServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("requests")
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
    monkeypatch.setenv("GCE_METADATA_IP", f"127.0.0.1:{wrong.port}")
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", f"127.0.0.1:{wrong.port}")
    with pytest.raises((Unreachable, InvalidInput)):
        GoogleTokens(None, None).get(Credential(b'{"type": "google_default"}'))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_signed_proof_follows_no_redirect(status: int) -> None:
    with odd_server(answering({"access_token": "t", "expires_in": 3_600})) as other:

        def redirect(talk: Talk) -> None:
            talk.sized(b"", b"HTTP/1.1 %d Moved\r\nLocation: %s/\r\n" % (status, other.address.encode()))

        with odd_server(redirect) as server, pytest.raises(Unreachable, match=f"HTTP {status}"):
            GoogleTokens(None, None).get(account(server))
        assert other.asked == []


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_refusal_of_the_issuer_is_a_fault_of_the_credential(status: int) -> None:
    refusal = b'{"error": "invalid_grant", "error_description": "Account deleted"}'
    head = JSON_OK.replace(b"200 OK", b"%d No" % status)

    def refuse(talk: Talk) -> None:
        talk.sized(refusal, head)

    with odd_server(refuse) as server, pytest.raises(InvalidInput, match="Account deleted"):
        GoogleTokens(None, None).get(account(server))


def test_a_token_of_the_issuer_is_used() -> None:
    with odd_server(answering({"access_token": "t", "expires_in": 3_600})) as server:
        token = GoogleTokens(None, None).get(account(server))
    assert (token.token, token.project, token.left_s > 3_000) == ("t", "demo", True)


def test_an_address_of_an_issuer_is_shown_without_the_secrets_in_its_query() -> None:
    """urllib3 names the address in its errors, which a traceback of --log-level debug shows."""
    fields = {"type": "service_account", "private_key": PEM, "client_email": "a@b", "project_id": "demo"}
    address = "http://127.0.0.1:1/token?key=s3cr3t-of-a-gateway&code=0123456789abcdefgh"
    credential = Credential(json.dumps({**fields, "token_uri": address}).encode())
    with pytest.raises(Unreachable) as caught:
        GoogleTokens(None, None).get(credential)
    shown = without_credentials("".join(traceback.format_exception(caught.value)))
    assert "/token?" in shown
    assert "s3cr3t" not in shown
    assert "0123456789abcdefgh" not in shown
