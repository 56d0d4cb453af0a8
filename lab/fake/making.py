"""Fakes with fresh keys, and the files that settings point to."""

import json
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from lab.fake.apns.provider import FakeApnsProvider
from lab.fake.apns.provider_tokens import ProviderKey, ProviderTokens
from lab.fake.certificates import private_pem, write_private
from lab.fake.fcm.access_tokens import AccessTokens
from lab.fake.fcm.provider import TOKEN_PATH, FakeFcmProvider

KEY_ID, TEAM_ID = "FAKEKEY001", "FAKETEAM01"
STREAMS = {"fcm": 100, "apns": 1_000}
"""Streams that the real ones were seen to allow."""


@dataclass(frozen=True)
class FcmFake:
    """An FCM fake and its service account."""

    provider: FakeFcmProvider
    tokens: AccessTokens
    account: dict[str, str]

    def write_account(self, file: Path, url: str) -> None:
        """Write the service account, whose token endpoint is the fake's. Raises InvalidInput."""
        self.tokens.token_uri = f"{url}{TOKEN_PATH}"
        write_private(file, json.dumps({**self.account, "token_uri": self.tokens.token_uri}, indent=2).encode())


def make_fcm(project_id: str) -> FcmFake:
    """Return a fake with a new service account."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    email = f"fake@{project_id}.iam.gserviceaccount.com"
    account = {
        "type": "service_account",
        "project_id": project_id,
        "private_key_id": "fake",
        "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        "client_email": email,
        "client_id": "0",
    }
    tokens = AccessTokens(key.public_key(), email, "")
    return FcmFake(FakeFcmProvider(project_id, tokens), tokens, account)


def make_apns(topic: str, key_file: Path) -> FakeApnsProvider:
    """Return a fake with a new signing key, which is written. Raises InvalidInput."""
    key = generate_private_key(SECP256R1())
    write_private(key_file, private_pem(key))
    return FakeApnsProvider(topic, ProviderTokens(ProviderKey(key.public_key(), KEY_ID, TEAM_ID)))
