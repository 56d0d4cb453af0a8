"""The credentials of the channels `fcm` and `apns`: by app, replaced in service, and named when they cannot be used."""

import asyncio
import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from consumers.delivery.push.credentials import Credential, CredentialSource
from dispatcher.model.flow_pause import PauseKind
from dispatcher.wire.outcome import UNSENT, Outcome
from lab.fake.certificates import private_pem
from lab.fake.making import make_apns, make_fcm
from tests.actors import DEADLINE_S
from tests.unit.dispatch.consumers.http2.calls import until
from tests.unit.dispatch.consumers.push.rig import Rig, codes, deliver_until, rig, rigged
from tests.unit.lab.fake.playing import TOPIC

SENT = int(Outcome.SENT)


async def test_sources_that_hang_hold_up_no_other_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_over, read, hanging = threading.Event(), CredentialSource.current, list[Credential]()
    monkeypatch.setenv("HANGS", "until the end of the test")

    def hangs(source: CredentialSource) -> Credential:
        credential = read(source)
        if credential.secret.startswith(b"until"):
            hanging.append(credential)
            is_over.wait(DEADLINE_S)
        return credential

    monkeypatch.setattr(CredentialSource, "current", hangs)
    others = {f"app-{number}": {"credentials": "env:HANGS", "topic": TOPIC} for number in range(40)}
    async with rig("apns", tmp_path, other_apps=others, timeout_s=3.0) as at:
        calls = [asyncio.ensure_future(at.deliver(at.targets(1), app=app)) for app in others]
        await until(lambda: len(hanging) == len(others))
        assert codes(await at.deliver(at.targets(3))) == [SENT] * 3
        is_over.set()
        await asyncio.gather(*calls)


@rigged(apps=("shop", "news"))
async def test_two_apps_send_with_their_own_credentials(at: Rig) -> None:
    ours, theirs = at.targets(5), at.targets(5, first=5)
    results = await asyncio.gather(at.deliver(ours), at.deliver(theirs, app="news"))
    assert [codes(result) for result in results] == [[SENT] * 5] * 2
    assert at.accepted(ours) == [1] * 5
    assert at.accepted(theirs, "news") == [1] * 5
    assert at.accepted(ours, "news") == [0] * 5


async def test_an_app_without_settings_is_named_and_not_lost(at: Rig) -> None:
    verdicts = await at.deliver(at.targets(2), app="blog")
    assert codes(verdicts) == [UNSENT] * 2
    assert verdicts[0] is not None
    assert f"[channels.{at.name}.apps.blog]" in verdicts[0].reason
    assert at.gate.troubles[0].kind is PauseKind.CREDENTIALS


@rigged("fcm")
async def test_an_expired_access_token_is_renewed_once_and_every_target_sent_once(at: Rig) -> None:
    await at.deliver(at.targets(3))
    at.site.provider.expire_tokens()
    targets = at.targets(200, first=10)
    assert codes(await at.deliver(targets)) == [SENT] * 200
    assert at.accepted(targets) == [1] * 200
    assert not at.gate.troubles


@rigged("fcm")
async def test_a_key_that_some_targets_lack_at_the_provider_stops_no_others(at: Rig) -> None:
    at.rule(answers=[{"status": 401, "code": "THIRD_PARTY_AUTH_ERROR", "targets": "device-token-5"}])
    ios, others = [f"device-token-5{number:06d}" for number in range(50)], at.targets(50)
    verdicts = await at.deliver([target for pair in zip(ios, others, strict=True) for target in pair])
    assert codes(verdicts) == [UNSENT, SENT] * 50
    assert verdicts[0] is not None
    assert not verdicts[0].paused  # the end of another pause does not concern it
    assert not at.gate.troubles


@rigged("fcm")
async def test_a_key_that_all_targets_lack_at_the_provider_pauses_the_app(at: Rig) -> None:
    at.rule(answers=[{"status": 401, "code": "THIRD_PARTY_AUTH_ERROR"}])
    assert set(codes(await at.deliver(at.targets(50)))) == {UNSENT}
    assert {trouble.kind for trouble in at.gate.troubles} == {PauseKind.CREDENTIALS}


@rigged("apns")
async def test_an_expired_provider_token_that_cannot_be_renewed_pauses_the_app(at: Rig) -> None:
    """All workers make the same one in a half hour, so it is the clock or the key."""
    at.site.provider.expire_tokens()
    assert set(codes(await at.deliver(at.targets(5)))) <= {UNSENT, None}
    assert at.gate.troubles[0].kind is PauseKind.CREDENTIALS
    assert "ExpiredProviderToken" in at.gate.troubles[0].reason


def make_new_key(at: Rig) -> bytes:
    """Revoke the provider's key: the fake accepts a new one only. Return that."""
    place = at.folder / "shop"
    if at.name == "fcm":
        made = make_fcm("demo")
        account: dict[str, str] = json.loads((place / "account.json").read_text())
        made.tokens.token_uri = account["token_uri"]
        at.site.provider = made.provider
        return json.dumps({**made.account, "token_uri": account["token_uri"]}).encode()
    at.site.provider = make_apns(TOPIC, place / "next.p8")
    return (place / "next.p8").read_bytes()


def key_file(at: Rig) -> Path:
    return at.folder / "shop" / ("account.json" if at.name == "fcm" else "key.p8")


async def test_a_revoked_key_pauses_the_app_until_a_new_one_is_there(at: Rig) -> None:
    assert codes(await at.deliver(at.targets(3))) == [SENT] * 3
    new = make_new_key(at)
    verdicts = codes(await at.deliver(at.targets(30, first=10)))
    assert set(verdicts) == {UNSENT}
    assert {trouble.kind for trouble in at.gate.troubles} == {PauseKind.CREDENTIALS}
    key_file(at).write_bytes(new)
    await until(lambda: at.gate.closed(f"{at.name}/shop") is None)  # no call is needed for that
    assert codes(await at.deliver(at.targets(3, first=50))) == [SENT] * 3
    assert len(set(at.gate.versions)) == 2


@rigged(app_settings={"streams": 20})
async def test_a_credential_changes_while_calls_are_under_way(at: Rig) -> None:
    at.rule(latency_ms=[100, 100])
    old = key_file(at).read_bytes()
    first = asyncio.create_task(at.deliver(at.targets(100)))
    await until(lambda: bool(at.site.accounts.answers))
    key_file(at).write_bytes(old + b"\n")  # another version of what the provider accepts
    sent = await deliver_until(at, lambda: len(at.gate.versions) == 2)
    last = await at.deliver(at.targets(100, first=10_000))
    assert {*codes(await first), *sent, *codes(last)} == {SENT}


@pytest.mark.parametrize("content", [None, b"", b"not a key", b"{}", b'{"type": "service_account"}', b"\xff" * 70_000])
async def test_a_credential_that_cannot_be_used_is_named_and_sends_nothing(at: Rig, content: bytes | None) -> None:
    good = key_file(at).read_bytes()
    key_file(at).unlink()
    if content is not None:
        key_file(at).write_bytes(content)
    verdicts = await at.deliver(at.targets(3))
    assert codes(verdicts) == [UNSENT] * 3
    assert at.gate.troubles[0].kind is PauseKind.CREDENTIALS
    assert "redential" in at.gate.troubles[0].reason
    key_file(at).write_bytes(good)
    sent = await deliver_until(at, lambda: bool(at.site.accounts.accepted))
    assert sent[-1] == SENT


@rigged("apns", app_settings={"key_id": None, "team_id": None})
async def test_a_certificate_is_shown_instead_of_a_token(at: Rig, tmp_path: Path) -> None:
    place = tmp_path / "shop"
    (place / "key.p8").write_bytes((place / "client.pem").read_bytes())
    assert codes(await at.deliver(at.targets(20))) == [SENT] * 20


def certificate_pem(key: EllipticCurvePrivateKey, days: int) -> bytes:
    """Return a certificate that expires in this number of days."""
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop")]), datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    dated = builder.not_valid_before(now - timedelta(days=400)).not_valid_after(now + timedelta(days=days))
    return dated.serial_number(1).sign(key, SHA256()).public_bytes(Encoding.PEM)


@rigged("apns", app_settings={"key_id": None, "team_id": None})
@pytest.mark.parametrize("fault", ["expired", "not that of", "cannot be read"])
async def test_a_certificate_that_cannot_be_used_is_no_provider_that_is_down(
    at: Rig, tmp_path: Path, fault: str
) -> None:
    key, other = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))
    keys = {"expired": private_pem(key), "not that of": private_pem(other), "cannot be read": locked}
    pem = certificate_pem(key, -1 if fault == "expired" else 30) + keys[fault]
    (tmp_path / "shop" / "key.p8").write_bytes(pem)
    assert set(codes(await at.deliver(at.targets(2)))) == {UNSENT}
    assert at.gate.troubles[0].kind is PauseKind.CREDENTIALS
    assert fault in at.gate.troubles[0].reason


async def test_no_secret_is_logged_or_reported(at: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    secret = key_file(at).read_bytes()
    lines = [line for line in secret.decode().replace("\\n", "\n").splitlines() if len(line) > 30]
    await at.deliver(at.targets(2))
    make_new_key(at)
    await at.deliver(at.targets(2))
    shown = caplog.text + repr(at.gate.troubles) + repr(at.courier.channels)
    assert not [line for line in lines if line.strip('" ,') in shown and "PRIVATE KEY" not in line]
    assert "Bearer ya29" not in shown
