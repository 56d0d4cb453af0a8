"""FCM without a key: the identity of the machine, pod or service, and of workloads elsewhere that Google trusts."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dispatcher.model.errors import InvalidInput, Unreachable
from dispatcher.model.flow_pause import PauseKind
from dispatcher.wire.outcome import UNSENT, Outcome
from tests.unit.dispatch.consumers.push import google
from tests.unit.dispatch.consumers.push.google import GoogleMachine
from tests.unit.dispatch.consumers.push.rig import Rig, check, codes, deliver_until, failure, rigged

SENT = int(Outcome.SENT)
DEFAULT = {"credentials": "google:default"}
METADATA = "google.auth.compute_engine._metadata"
Machine = Callable[[Rig], GoogleMachine]


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep this machine's own credentials away from google-auth, and let it give up quickly."""
    pytest.importorskip("requests")
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "no-gcloud"))
    live_at(monkeypatch, "127.0.0.1:1")
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda _: None)


def live_at(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Let google-auth look for the metadata server there; it reads GCE_METADATA_HOST when it is imported."""
    monkeypatch.setattr(f"{METADATA}._GCE_METADATA_HOST", address)
    monkeypatch.setenv("GCE_METADATA_IP", address)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine whose tokens the rig's fake FCM accepts."""
    issuers: list[Rig] = []

    def issue(lifetime_s: int) -> str:
        return issuers[0].accounts["shop"].tokens.issue(lifetime_s)

    with google.running(issue) as fake:
        live_at(monkeypatch, fake.address)

        def owned_by(at: Rig) -> GoogleMachine:
            issuers.append(at)
            return fake

        yield owned_by


@rigged("fcm", app_settings=DEFAULT)
async def test_a_worker_sends_as_the_machine_that_it_runs_on(at: Rig, machine: Machine) -> None:
    fake = machine(at)
    targets = at.targets(50)
    assert codes(await at.deliver(targets)) == [SENT] * 50
    assert at.accepted(targets) == [1] * 50
    assert (await check(at)).answer == "200"
    assert "/computeMetadata/v1/project/project-id" in fake.asked


@rigged("fcm", app_settings=DEFAULT)
async def test_a_machine_without_identity_is_named_and_sends_when_it_has_one(at: Rig, machine: Machine) -> None:
    fake = machine(at)
    fake.has_account = False
    assert set(codes(await at.deliver(at.targets(2)))) == {UNSENT}
    assert at.gate.troubles[0].kind is PauseKind.CREDENTIALS
    assert "service account" in at.gate.troubles[0].reason
    fake.has_account = True
    at.gate.open_all()  # the pause ends
    while SENT not in codes(await at.deliver(at.targets(1, first=10))):
        at.gate.open_all()


@rigged("fcm", app_settings=DEFAULT)
async def test_the_check_explains_what_the_machine_lacks(at: Rig, machine: Machine) -> None:
    fake = machine(at)
    fake.has_account = False
    error = await failure(at)
    assert isinstance(error, InvalidInput)
    assert "Status: 404" in error.cause
    assert "Give the machine or pod a service account" in error.next_step
    fake.has_account, fake.status = True, 503
    error = await failure(at)
    assert isinstance(error, Unreachable)
    assert "503" in error.cause
    fake.status, fake.project = 200, "a project"
    error = await failure(at)
    assert "names no Firebase project" in error.cause
    assert (await check(at, project_id="demo")).answer == "200"
    assert "only google:default" in (await failure(at, credentials="google:other")).cause


@rigged("fcm", app_settings=DEFAULT)
async def test_the_check_explains_that_there_is_no_machine_of_google(at: Rig) -> None:
    error = await failure(at)
    assert isinstance(error, InvalidInput)
    assert "default credentials were not found" in error.cause
    assert "GOOGLE_APPLICATION_CREDENTIALS" in error.next_step


@rigged("fcm", app_settings=DEFAULT)
async def test_the_machines_metadata_is_asked_past_the_proxy(at: Rig, machine: Machine) -> None:
    fake = machine(at)
    await failure(at, proxy="http://127.0.0.1:1")  # FCM is asked through it
    assert any(path.endswith("/token") for path in fake.asked)


@rigged("fcm", app_settings=DEFAULT)
async def test_the_file_that_the_environment_names_is_used_and_read_again(
    at: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account = tmp_path / "shop" / "account.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    assert codes(await at.deliver(at.targets(3))) == [SENT] * 3
    account.write_bytes(account.read_bytes() + b"\n")
    assert set(await deliver_until(at, lambda: len(at.gate.versions) == 2)) == {SENT}
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone"))
    assert "gone cannot be read" in (await failure(at)).cause


def elsewhere(tmp_path: Path, fake: GoogleMachine, token: str) -> str:
    """Write the configuration of a workload outside of Google; return the reference to it."""
    (tmp_path / "token").write_text(token)
    configuration = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"http://{fake.address}/v1/token",
        "credential_source": {"file": str(tmp_path / "token")},
    }
    (tmp_path / "external.json").write_text(json.dumps(configuration))
    return f"file:{tmp_path / 'external.json'}"


@rigged("fcm")
async def test_a_workload_elsewhere_exchanges_its_token(at: Rig, machine: Machine, tmp_path: Path) -> None:
    fake = machine(at)
    credentials = elsewhere(tmp_path, fake, fake.foreign_token)
    assert (await check(at, credentials=credentials, project_id="demo")).answer == "200"
    assert "names no Firebase project" in (await failure(at, credentials=credentials)).cause
    credentials = elsewhere(tmp_path, fake, "forged")
    error = await failure(at, credentials=credentials, project_id="demo")
    assert "The subject token is not accepted" in error.cause
    assert "source of identity" in error.next_step
    (tmp_path / "token").unlink()
    assert "was not found" in (await failure(at, credentials=credentials, project_id="demo")).cause


@rigged("fcm")
@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_an_issuer_that_does_not_work_says_nothing_about_the_credential(
    at: Rig, machine: Machine, tmp_path: Path, status: int
) -> None:
    fake = machine(at)
    account = json.loads((tmp_path / "shop" / "account.json").read_text())
    fake.status, account["token_uri"] = status, f"http://{fake.address}/v1/token"
    (tmp_path / "account.json").write_text(json.dumps(account))
    for credentials in (f"file:{tmp_path / 'account.json'}", elsewhere(tmp_path, fake, fake.foreign_token)):
        error = await failure(at, credentials=credentials, project_id="demo")
        assert isinstance(error, Unreachable)
        assert f"HTTP {status}: " in error.cause
