"""Fakes on free ports with a client beside them."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from google.auth import jwt
from google.auth.crypt import ES256Signer, RSASigner

from consumers.delivery.http2.curl_client import CurlClient
from consumers.delivery.http2.port import HttpRequest, HttpResponse, RequestFailed
from consumers.delivery.http2.settings import ClientSettings
from lab.fake.certificates import make_tls_files
from lab.fake.making import KEY_ID, STREAMS, TEAM_ID, make_apns, make_fcm
from lab.fake.rules import read_rules
from lab.fake.server import serving
from lab.fake.site import FakeSite

Outcome = HttpResponse | RequestFailed
TOPIC = "com.example.app"
FCM_PATH = "/v1/projects/demo/messages:send"
SCOPE = "https://www.googleapis.com/auth/firebase.messaging"


def fcm_target(number: int) -> str:
    return f"device-token-{number:020d}"


def apns_target(number: int) -> str:
    return f"{number:064x}"


@dataclass
class Playing:
    """A fake and a client."""

    site: FakeSite
    url: str
    folder: Path
    client: CurlClient
    headers: dict[str, str] = field(default_factory=dict)
    account: dict[str, str] = field(default_factory=dict)

    async def post(self, path: str, body: bytes, /, **headers: str | None) -> HttpResponse:
        """Post with the usual headers and these (`apns_id` is apns-id; None: without it)."""
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        merged = {**self.headers, **changed}
        given = tuple((name, value) for name, value in merged.items() if value is not None)
        return await self.client.send(HttpRequest(url=f"{self.url}{path}", body=body, headers=given))

    async def push(self, target: str, /, **headers: str | None) -> HttpResponse:
        """Send a valid push."""
        if self.site.provider.name == "apns":
            return await self.post(f"/3/device/{target}", b'{"aps":{"alert":"hello"}}', **headers)
        return await self.message({"token": target, "notification": {"title": "hello"}}, **headers)

    async def message(self, message: Any, /, **headers: str | None) -> HttpResponse:
        """Send a message to FCM."""
        return await self.post(FCM_PATH, json.dumps({"message": message}).encode(), **headers)

    async def attempt(self, target: str) -> Outcome:
        """Send a valid push; return its answer or its failure."""
        try:
            return await self.push(target)
        except RequestFailed as failure:
            return failure


@asynccontextmanager
async def fcm(folder: Path, rules: dict[str, Any] | None = None, **client: Any) -> AsyncIterator[Playing]:
    """An FCM fake whose client has an access token."""
    made = make_fcm("demo")
    site = FakeSite(made.provider, read_rules(rules or {}, made.provider.table), streams=STREAMS["fcm"], seed=7)
    async with _playing(site, folder, False, client) as playing:
        made.write_account(folder / "account.json", playing.url)
        playing.account = json.loads((folder / "account.json").read_text())
        token = json.loads((await grant(playing)).body)["access_token"]
        playing.headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        yield playing


@asynccontextmanager
async def apns(folder: Path, rules: dict[str, Any] | None = None, **client: Any) -> AsyncIterator[Playing]:
    """An APNs fake whose client has a provider token."""
    provider = make_apns(TOPIC, folder / "key.p8")
    site = FakeSite(provider, read_rules(rules or {}, provider.table), streams=STREAMS["apns"], seed=7)
    async with _playing(site, folder, True, client) as playing:
        playing.headers = {"authorization": f"bearer {provider_token(folder)}", "apns-topic": TOPIC}
        yield playing


@asynccontextmanager
async def _playing(site: FakeSite, folder: Path, asks: bool, settings: dict[str, Any]) -> AsyncIterator[Playing]:
    files = make_tls_files(folder, "127.0.0.1", asks=asks)
    async with serving(site, files) as port:
        client = CurlClient(ClientSettings(**{"ca_file": str(files.authority), "timeout_s": 5.0, **settings}))
        try:
            yield Playing(site, f"https://127.0.0.1:{port}", folder, client)
        finally:
            await client.close()


async def grant(playing: Playing, **changes: Any) -> HttpResponse:
    """Ask for an access token as google-auth does."""
    account, now_s = playing.account, int(time.time())
    claims = {
        "iss": account["client_email"],
        "aud": account["token_uri"],
        "scope": SCOPE,
        "iat": now_s,
        "exp": now_s + 3_600,
        **changes,
    }
    assertion = jwt.encode(RSASigner.from_string(account["private_key"]), claims)
    form = urlencode({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion})
    return await playing.post("/token", form.encode(), content_type="application/x-www-form-urlencoded")


def provider_token(folder: Path, *, age_s: float = 0.0, key_id: str = KEY_ID) -> str:
    """Sign a provider token with the key that the fake wrote."""
    signer = ES256Signer.from_string((folder / "key.p8").read_bytes(), key_id)
    token: bytes = jwt.encode(signer, {"iss": TEAM_ID, "iat": int(time.time() - age_s)})
    return token.decode()
