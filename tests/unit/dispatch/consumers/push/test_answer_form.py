"""An answer counts as sent only in its provider's own form, on the quick path and in the table alike."""

import gzip

import pytest
from pydantic import SecretStr

from consumers.delivery.http2.port import HttpResponse
from consumers.delivery.push.apns import ApnsProvider
from consumers.delivery.push.fcm import FcmProvider
from consumers.delivery.push.provider import Provider
from consumers.delivery.settings import ApnsApp, FcmApp
from dispatcher.channels.verdict_table import Effect

FCM = FcmProvider(FcmApp(credentials=SecretStr("env:KEY")))
APNS = ApnsProvider(ApnsApp(credentials=SecretStr("env:KEY"), topic="com.example.app"))
APNS_ID = "eabeae54-14a8-11e5-b60b-1697f925ec7b"
PAGE = b'<html><script type="application/ld+json">{"@type":"Organization","name":"Hotel"}</script></html>'

OF_FCM = [
    b'{\n  "name": "projects/shop-b5ae1/messages/0:1500415314455276%31bd1c9631bd1c96"\n}\n',
    b'{"name":"projects/shop/messages/fake_message_id"}',
    b'{"other": {"a": [1]}, "name": "projects/shop/messages/0:1"}',
]
OF_NOBODY = [
    PAGE,
    b"",
    b"ok",
    b"null",
    b"{}",
    b'[{"name": 1}]',
    b'"name"',
    b'{"name": null}',
    b'{"name": 7}',
    b'{"name": ""}',
    b'{"name": "Hotel"}',
    b'{"name": "projects/shop"}',
    b'{"name": "projects/shop/messages/"}',
    b'{"name": "projects//messages/1"}',
    b'{"name": "/v1/projects/shop/messages:send"}',
    b'{"name": "x projects/shop/messages/1"}',
    b'{"name": "projects/shop/messages/1\\n"}\x00',
    b'{"Name": "projects/shop/messages/1"}',
    b'{"message": {"name": "projects/shop/messages/1"}}',
    b'{"error": {"name": "QuotaExceeded"}}',
    b'{"name": "projects/shop/messages/1", "error": {"status": "INTERNAL"}}',
    b'{"name": "projects/shop/messages/1"',
    b'{"name": "projects/shop/messages/1"} trailing',
    b'{"name": "projects/shop/messages/\xff"}',
    b'{"a": ' + b"[" * 30_000 + b"]" * 30_000 + b', "name": "projects/shop/messages/1"}',
    gzip.compress(OF_FCM[0], mtime=0),
]
NO_IDS = ["", " ", "1", "id-1", "null", APNS_ID[:-1], APNS_ID + "0", APNS_ID.replace("-", ""), APNS_ID[:-1] + "g"]


def read(provider: Provider, status: int, body: bytes, apns_id: str | None = None) -> tuple[bool, Effect, bool]:
    """Return whether the quick path takes it as sent, and the row of the table."""
    lines = () if apns_id is None else (b"apns-id: " + apns_id.encode() + b"\r\n",)
    response = HttpResponse(status=status, body=body, lines=(b"HTTP/2 200\r\n", *lines))
    row = provider.spec.table.row_of(provider.read(response))
    return status == 200 and provider.took(response), row.effect, row.may_be_taken


@pytest.mark.parametrize("body", OF_FCM)
def test_an_answer_that_names_its_message_is_sent_by_fcm(body: bytes) -> None:
    assert read(FCM, 200, body) == (True, Effect.SENT, False)


@pytest.mark.parametrize("body", OF_NOBODY, ids=lambda body: body[:40].decode("latin-1"))
def test_an_answer_that_names_no_message_is_never_sent_by_fcm(body: bytes) -> None:
    assert read(FCM, 200, body) == (False, Effect.DOWN, True)


@pytest.mark.parametrize("body", OF_FCM)
def test_a_success_with_another_status_is_not_one_of_fcm(body: bytes) -> None:
    assert read(FCM, 202, body) == (False, Effect.DOWN, True)


@pytest.mark.parametrize("apns_id", [APNS_ID, APNS_ID.upper()])
def test_an_answer_with_an_id_is_sent_by_apns(apns_id: str) -> None:
    assert read(APNS, 200, b"", apns_id) == (True, Effect.SENT, False)


@pytest.mark.parametrize("body", [b"", PAGE, b"{}"])
@pytest.mark.parametrize("apns_id", [None, *NO_IDS])
def test_an_answer_without_an_id_is_never_sent_by_apns(apns_id: str | None, body: bytes) -> None:
    assert read(APNS, 200, body, apns_id) == (False, Effect.DOWN, True)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308, 399])
@pytest.mark.parametrize("provider", [FCM, APNS])
def test_a_redirect_stops_the_flow_and_costs_no_target_a_try(provider: Provider, status: int) -> None:
    """No provider redirects; the portal of a network does."""
    assert read(provider, status, b"", None) == (False, Effect.DOWN, False)
