"""No secret reaches an archive: by its name, by its value, by its form."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.shown import MASK
from estate.masking import Masker, secrets_in

PLAIN = Masker()


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "hunter2 x"}',
        '{"password" : "hunter2 \\" x"}',
        'nested {"conf": "{\\"tokenSecret\\":\\"hunter2\\"}"}',
        "bookkeeperPassword=hunter2 other=1",
        "password: 'hunter2 y'",
        "-Djavax.net.ssl.keyStorePassword=hunter2 -Dfoo=bar",
        "Authorization: hunter2",
        "authorization: Basic hunter2hunter2",
        '"Proxy-Authorization": "Bearer hunter2hunter2"',
        "Set-Cookie: id=hunter2; Secure",
        "X-Api-Key: hunter2",
        "redis://app:hunter2@10.0.0.1:6379/0",
        "see https://hunter2@host/path for more",
        "https://host/path?sig=hunter2&x=hunter2",
        "header Bearer hunter2hunter2 was sent",
        "eyJhbGciOiJIUzI1NiJ9.eyJhunter2.c2lnbmF0dXJl",
        "AKIAHUNTER2HUNTER222",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nhunter2 and the rest was cut",
        'secretKey = "hunter2',
        "brokerClientAuthenticationParameters=token:hunter2",
    ],
)
def test_a_secret_is_hidden_by_its_name_or_form(text: str) -> None:
    shown = PLAIN.text(text)
    assert "hunter2" not in shown.lower()
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        "LedgerMetadata{password=OMITTED, ensembles={0=[127.0.0.2:3181, 127.0.0.3:3181]}}",
        'pulsar_publish_tokens{namespace="fairlane/shared",le="5"} 3.0',
        '{"tokenAuthEnabled": true, "password": ""}',
        "persistent://fairlane/tasks-01/secret-sale has a backlog of 5",
        '{"persistent://fairlane/tasks-01/token-sale":{"msgBacklog":5}',
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert PLAIN.text(text) == text


def test_known_values_are_hidden_wherever_and_however_they_are_written() -> None:
    masker = Masker(['p"w/1', "tok"])
    for written in ('p"w/1', json.dumps('p"w/1'), "p%22w%2F1"):
        assert "w" not in masker.text(f"a {written} b").replace(MASK, "")
    assert masker.text("a tok b") == "a tok b", "it is too short to be hidden everywhere"


def test_the_longer_of_two_known_values_is_hidden_whole() -> None:
    assert Masker(["abcdef", "abcdefgh"]).text("abcdefgh") == MASK


def test_documents_keep_their_shape_and_lose_their_secrets() -> None:
    document = {
        "brokerClientAuthenticationParameters": "token:xyz",
        "authenticationEnabled": "true",
        "brokerEntryKeyRate": "10",
        "list": [{"clientSecret": "a"}, {"plain": "b"}],
        "tokens": 5,
        "credentials": {"user": "x", "none": None},
        "persistent://t/n/secret-sale": {"msgBacklog": 5, "state": "open"},
        "x-password": "https://y",
    }
    assert PLAIN.document(document) == {
        "brokerClientAuthenticationParameters": MASK,
        "authenticationEnabled": "true",
        "brokerEntryKeyRate": "10",
        "list": [{"clientSecret": MASK}, {"plain": "b"}],
        "tokens": MASK,
        "credentials": {"user": MASK, "none": None},
        "persistent://t/n/secret-sale": {"msgBacklog": 5, "state": "open"},
        "x-password": MASK,
    }


def test_secrets_of_servers_are_learned_by_their_names() -> None:
    settings = {"bookkeeperPassword": "hunter2!", "tokenEnabled": "true", "passphrase": "abc", "keyRate": "123456789"}
    assert list(secrets_in([settings])) == ["hunter2!"]
    assert list(secrets_in({"authParams": "token:abcdefgh"})) == ["token:abcdefgh", "abcdefgh"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON, st.text(min_size=4).filter(lambda text: not set(text) <= set("*")))
def test_nothing_raises_and_a_known_value_is_never_in_the_text(document: Any, secret: str) -> None:
    masker = Masker([secret])
    PLAIN.document(document)
    list(secrets_in(document))
    assert secret not in masker.text(f"a{secret}b{json.dumps(document)}").replace(MASK, "\0")


def test_long_words_without_a_secret_are_read_in_one_pass() -> None:
    """A pattern that searches back in them would take hours, and the test's limit ends it."""
    text = f"{'a-long.word_' * 50_000} {'token_' * 5_000}\n"
    assert PLAIN.text(text) == text
