"""Credentials that an environment has mangled are restored where that is unambiguous, and named where not."""

import base64
import json
import shlex
from collections.abc import Callable
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from consumers.delivery.push.apns import ApnsProvider
from consumers.delivery.push.credentials import Credential
from consumers.delivery.push.google_tokens import GoogleTokens
from consumers.delivery.push.mangled import restored
from consumers.delivery.settings import ApnsApp
from dispatcher.model.errors import InvalidInput

KEY: EllipticCurvePrivateKey = generate_private_key(SECP256R1())
P8 = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
BODY = "".join(P8.split("\n")[1:-2])
ACCOUNT = {"type": "service_account", "project_id": "shop", "private_key": P8, "client_email": "a@b.example"}
JSON = json.dumps(ACCOUNT, indent=2)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


MANGLED: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "white space around it": lambda text: f"\n  {text}\r\n\n",
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "BOM": lambda text: f"\ufeff{text}",
    "quotes around it": lambda text: f'"{text}"',
    "single quotes around it": lambda text: f"'{text}'",
    "quotes and CRLF": lambda text: f"'{text}'\r\n".replace("\n", "\r\n"),
    "double-quoted": json.dumps,
    "double-quoted twice": lambda text: json.dumps(json.dumps(text)),
    "inner quotes escaped": lambda text: json.dumps(text)[1:-1],
    "quoted for a shell": shlex.quote,
    "base64": b64,
    "base64 in lines": lambda text: base64.encodebytes(text.encode()).decode(),
    "base64 of base64": lambda text: b64(b64(text)),
    "base64 of a quoted text": lambda text: b64(json.dumps(text)),
    "base64 in quotes": lambda text: f'"{b64(text)}"',
    "base64 without padding": lambda text: b64(text).rstrip("="),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 with BOM": lambda text: b64(f"\ufeff{text}"),
    "literal line breaks": lambda text: text.replace("\n", "\\n"),
    "literal CRLF": lambda text: text.replace("\n", "\\r\\n"),
    "literal line breaks in quotes": lambda text: '"' + text.replace("\n", "\\n") + '"',
    "line breaks as spaces": lambda text: text.replace("\n", " "),
    "indented": lambda text: text.replace("\n", "\n    "),
}
OF_KEYS: dict[str, str] = {
    "line breaks removed": P8.replace("\n", ""),
    "escaped line breaks": P8.replace("\n", "\\\\n"),
    "base64 of the key alone": BODY,
    "the same in lines": "\n".join(BODY[at : at + 64] for at in range(0, len(BODY), 64)),
    "the old form": KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode(),
    "text before it": f"Key of the shop\n{P8}",
}
OF_ACCOUNTS: dict[str, str] = {
    "line breaks in the key": JSON.replace("\\n", "\n"),
    "escaped line breaks in the key": JSON.replace("\\n", "\\\\n"),
    "line breaks of the key removed": JSON.replace("\\n", ""),
    "as Python shows it": str(ACCOUNT),
    "as Python shows it, in base64": b64(str(ACCOUNT)),
    "the key in quotes": json.dumps({**ACCOUNT, "private_key": f'"{P8}"'}),
}


def is_the_key(pem: bytes) -> bool:
    return load_pem_private_key(pem, None).public_key() == KEY.public_key()


@pytest.mark.parametrize(
    "text", [*[mangle(P8) for mangle in MANGLED.values()], *OF_KEYS.values()], ids=[*MANGLED, *OF_KEYS]
)
def test_a_mangled_p8_is_the_key_that_it_was(text: str) -> None:
    assert is_the_key(Credential(text.encode()).secret)


@pytest.mark.parametrize(
    "text", [*[mangle(JSON) for mangle in MANGLED.values()], *OF_ACCOUNTS.values()], ids=[*MANGLED, *OF_ACCOUNTS]
)
def test_a_mangled_service_account_is_the_one_that_it_was(text: str) -> None:
    account = json.loads(Credential(text.encode()).secret)
    assert {**account, "private_key": P8} == ACCOUNT
    assert is_the_key(account["private_key"].encode())


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_an_editors_encoding_is_read(encoding: str) -> None:
    assert is_the_key(Credential(P8.encode(encoding)).secret)
    assert json.loads(Credential(JSON.encode(encoding)).secret) == ACCOUNT


NAMED = {
    "an RSA key": generate_rsa(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    ),
    "a key with a passphrase": KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")),
    "a public key": KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    "a certificate without its private key": b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    "cut off": P8[:100].encode(),
    "binary": b"\x30\x82\x01\x00\x02\x01\x03\xff\xff",
    "google-services.json": b'{"project_info": {"project_id": "shop"}}',
    "a property list": b'<?xml version="1.0"?><plist></plist>',
    "JSON whose quotes are missing": b"{type: service_account, project_id: shop}",
    "JSON with a mistake": b'{"project_id": "shop",,}',
    "a placeholder": b"${FCM_KEY}",
    "a path": b"/run/secrets/key.p8",
    "it looks like base64": b"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5eg" * 2,
    "neither a PEM file nor JSON": b"hush",
}


def asked(secret: bytes, *, by_fcm: bool) -> str:
    apns = ApnsProvider(ApnsApp(credentials=SecretStr("env:X"), topic="a.b", key_id="K", team_id="T"))
    use = GoogleTokens(None, None).get if by_fcm else partial(apns.authorize, wall_s=1_000_000.0)
    with pytest.raises(InvalidInput) as caught:
        use(Credential(secret))
    return str(caught.value)


@pytest.mark.parametrize("by_fcm", [True, False], ids=["fcm", "apns"])
@pytest.mark.parametrize("words", NAMED)
def test_a_credential_that_cannot_be_used_is_named_for_what_it_is(words: str, *, by_fcm: bool) -> None:
    if words != "a certificate without its private key" or by_fcm:
        assert words in asked(NAMED[words], by_fcm=by_fcm)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (P8[:100], "cut off"),
        ("${KEY}", "a placeholder"),
        ("", "neither a PEM file"),
        (b64("x" * 60), "looks like base64"),
    ],
    ids=["cut off", "placeholder", "empty", "base64"],
)
def test_a_service_account_whose_key_is_none_says_what_it_is(key: str, words: str) -> None:
    assert words in asked(json.dumps({**ACCOUNT, "private_key": key}).encode(), by_fcm=True)


def test_each_channel_names_the_credential_of_the_other() -> None:
    assert "it is the JSON file of a service account" in asked(JSON.encode(), by_fcm=False)
    assert "it is a private key" in asked(P8.encode(), by_fcm=True)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_nothing_raises_and_restoring_twice_changes_nothing_more(secret: bytes) -> None:
    once = restored(secret)
    assert restored(once) == once
