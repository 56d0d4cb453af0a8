"""Settings of the channels fcm and apns: named errors, masked secrets, and channels of the user with the same names."""

import json
from pathlib import Path
from typing import Any

import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.model.shown import MASK
from fairlane.settings import Settings, explain_settings

APP = {"credentials": "file:/run/shop.json"}
APNS = {"credentials": "env:HUSH", "topic": "com.example.app", "key_id": "ABCDE12345", "team_id": "TEAM123456"}


def settings(**channels: Any) -> Settings:
    return Settings(channels=channels)


def test_a_channel_is_there_once_an_app_has_settings() -> None:
    assert "fcm" not in Settings().channel_classes()
    assert "fcm" not in settings(fcm={"timeout_s": 20.0}).channel_classes()
    given = settings(fcm={"apps": {"shop": APP}}, apns={"apps": {"shop": APNS}})
    assert given.channel_classes()["fcm"] == "fcm"
    assert given.channel_classes()["apns"] == "apns"
    assert given.channel_settings()["fcm"]["apps"]["shop"].credentials.get_secret_value() == "file:/run/shop.json"


def test_secrets_are_masked_by_type_and_their_places_are_shown() -> None:
    proxy = "http://me:hush@proxy:3128"
    given = settings(fcm={"apps": {"shop": {**APP, "proxy": proxy, "project_id": "demo"}}}, mine={"size": 3})
    rows = {row.name: row for row in explain_settings(given)}
    assert rows["channels.fcm.apps.shop.credentials"].value == "file:/run/shop.json"
    assert rows["channels.fcm.apps.shop.proxy"].value == MASK
    assert rows["channels.fcm.apps.shop.project_id"].value == "demo"
    assert rows["channels.fcm.timeout_s"].source == "default"
    assert rows["channels"].value == {"mine": {"size": 3}}
    assert "hush" not in json.dumps([row.value for row in rows.values()])
    assert "hush" not in repr(given.channel_settings()["fcm"])
    assert given.channel_settings()["fcm"]["apps"]["shop"].proxy_address == proxy


@pytest.mark.parametrize(
    ("channel", "values", "named"),
    [
        ("fcm", {"apps": {"shop": {}}}, "channels.fcm.apps.shop.credentials"),
        ("fcm", {"apps": {"shop": {**APP, "projct_id": "demo"}}}, "no setting channels.fcm.apps.shop.projct_id"),
        ("fcm", {"apps": {"shop": {**APP, "url": "http://x"}}}, "https:// address to send to"),
        ("fcm", {"apps": {"shop": {"credentials": "google:other"}}}, "only google:default"),
        ("apns", {"apps": {"shop": {**APNS, "credentials": "google:default"}}}, "is a credential for fcm"),
        ("fcm", {"apps": {"a shop": APP}}, "channels.fcm.apps.a shop"),
        ("fcm", {"apps": {"shop": APP}, "timeout_s": 3}, "request_timeout_s must be less than timeout_s"),
        ("fcm", {"aps": {}}, "no setting channels.fcm.aps"),
        (
            "apns",
            {"apps": {"shop": APP}},
            "Setting channels.apns.apps.shop.topic is missing. Its meaning: the app's bundle id.",
        ),
        ("apns", {"apps": {"shop": {**APNS, "team_id": None}}}, "key_id and team_id belong together"),
        ("apns", {"apps": {"shop": {**APNS, "environment": "test"}}}, "'production' or 'sandbox'"),
        ("apns", {"apps": {"shop": {**APNS, "connections": 0}}}, "maximum connections"),
    ],
)
def test_errors_name_the_setting(channel: str, values: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        settings(**{channel: values})


@pytest.mark.parametrize("proxy", ["proxy", "ftp://me:hush@proxy", "//me:hush@proxy", "http://me:hush@proxy:0"])
def test_an_address_that_no_proxy_can_have_is_refused_and_not_shown(proxy: str) -> None:
    with pytest.raises(InvalidInput, match="it must be an address such as http://HOST:PORT") as caught:
        settings(fcm={"apps": {"shop": {**APP, "proxy": proxy}}})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("secret", ["hush", "-----BEGIN PRIVATE KEY-----\nhush", '{"private_key": "hush"}', ":hush"])
def test_a_secret_in_place_of_a_reference_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(InvalidInput, match="must be a reference") as caught:
        settings(fcm={"apps": {"shop": {"credentials": secret}}})
    assert "hush" not in str(caught.value)


def test_a_channel_of_the_user_keeps_its_name_and_its_own_settings() -> None:
    own = Settings(worker={"channels": {"fcm": "my.fcm:Fcm"}}, channels={"fcm": {"anything": 1}})
    assert own.channel_classes()["fcm"] == "my.fcm:Fcm"
    assert own.channel_settings()["fcm"] == {"anything": 1}


def test_a_file_names_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fairlane.toml").write_text('[channels.apns.apps.shop]\ncredentials = "file:key.p8"\ntopic = "a b"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"channels.apns.apps.shop.topic \(file fairlane.toml\)"):
        Settings()
