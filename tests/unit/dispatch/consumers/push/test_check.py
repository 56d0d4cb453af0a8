"""`fairlane channel check`: the exact reason why an app may not send, and the fix."""

import json
from pathlib import Path

import pytest

from consumers.delivery.push.check import check_app
from dispatcher.model.errors import InvalidInput, NotFound, Refused, Unreachable
from tests.unit.dispatch.consumers.push.rig import Rig, check, failure, rigged


async def test_an_app_that_may_send(at: Rig) -> None:
    assert (await check(at)).answer == "200"
    [target] = at.targets(1)
    assert (await check(at, target)).answer == "200"
    if at.name == "fcm":
        assert not at.site.accounts.accepted  # a dry run


async def test_a_target_that_does_not_exist_shows_that_the_credential_is_good(at: Rig) -> None:
    rule = {"status": 400, "detail": "token"} if at.name == "fcm" else {"status": 400, "code": "BadDeviceToken"}
    at.rule(answers=[rule])
    [target] = at.targets(1)
    if at.name == "apns":
        assert (await check(at)).answer == "400 BadDeviceToken"
        error = await failure(at, target)
        assert isinstance(error, Refused)
        assert "environment" in error.next_step
    assert isinstance(await failure(at, "x"), InvalidInput)


async def test_what_is_wrong_is_named_with_the_fix(at: Rig, tmp_path: Path) -> None:
    error = await failure(at, credentials="file:/nowhere/x")
    assert "/nowhere/x" in error.cause
    assert "path" in error.next_step
    error = await failure(at, credentials="env:FAIRLANE_TEST_NO_SUCH")
    assert "FAIRLANE_TEST_NO_SUCH" in error.cause
    error = await failure(at, credentials="vault:x")
    assert "entry point" in error.next_step
    (tmp_path / "empty").write_bytes(b" \n")
    assert "is empty" in (await failure(at, credentials=f"file:{tmp_path / 'empty'}")).cause
    (tmp_path / "junk").write_bytes(b"junk")
    assert "credential is not" in (await failure(at, credentials=f"file:{tmp_path / 'junk'}")).cause
    assert isinstance(await failure(at, ca_file=None), Unreachable)
    with pytest.raises(NotFound, match=rf"\[channels.{at.name}.apps.blog\]"):
        await check_app(at.name, {"apps": {}}, "blog", None)


@rigged("fcm")
async def test_fcm_names_project_and_account(at: Rig, tmp_path: Path) -> None:
    error = await failure(at, project_id="other")
    assert isinstance(error, Refused)
    assert "The project does not exist: check project_id" in error.cause
    account = json.loads((tmp_path / "shop" / "account.json").read_text())
    for changes, cause in (
        ({"project_id": ""}, "names no Firebase project"),
        ({"type": "authorized_user"}, "is of the type 'authorized_user'"),
        ({"private_key": "nonsense"}, "No access token for FCM's credential"),
        ({"client_email": "other@demo.iam.gserviceaccount.com"}, "account not found"),
    ):
        (tmp_path / "changed").write_text(json.dumps({**account, **changes}))
        error = await failure(at, credentials=f"file:{tmp_path / 'changed'}")
        assert isinstance(error, InvalidInput)
        assert cause in error.cause


@rigged("apns")
@pytest.mark.parametrize("status", [200, 400])
async def test_an_address_of_something_else_is_to_be_corrected(at: Rig, status: int) -> None:
    at.rule(answers=[{"status": status, "detail": "body"}])
    error = await failure(at, at.targets(1)[0])
    assert isinstance(error, Refused)
    assert "check url and proxy" in error.cause
    assert error.next_step == "Correct them, then check again."


@rigged("fcm")
async def test_a_socks_proxy_is_not_taken_for_a_wrong_key(at: Rig) -> None:
    error = await failure(at, proxy="socks5h://127.0.0.1:9")
    assert isinstance(error, InvalidInput)
    assert "SOCKS proxy" in error.cause
    assert "new one" not in error.next_step


@rigged("apns")
async def test_apns_names_key_and_topic(at: Rig, tmp_path: Path) -> None:
    assert "InvalidProviderToken" in (await failure(at, key_id="OTHERKEY01")).cause
    assert "TopicDisallowed" in (await failure(at, topic="com.other")).cause
    assert "no key_id" in (await failure(at, key_id=None, team_id=None)).cause
    assert "belong together" in (await failure(at, key_id=None)).cause
    assert "apps.shop.topic" in (await failure(at, topic=None)).cause
    certificate = tmp_path / "shop" / "client.pem"
    assert (await check(at, credentials=f"file:{certificate}", key_id=None, team_id=None)).answer == "200"
    authority = tmp_path / "shop" / "ca.pem"  # without a key
    assert "private key" in (await failure(at, credentials=f"file:{authority}")).cause
