"""Addresses of Sentinels: what they may be, and what is said of one that is wrong."""

import pytest
from pydantic import ValidationError

from backends.addresses import Address, sentinel_url
from backends.redis.client import connect
from backends.redis.view import open_view
from backends.settings import RedisSettings
from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import invalid_input


def test_hosts_service_database_and_credentials_are_read() -> None:
    url = sentinel_url("redis+sentinel://me:p%40ss%2Fw@a,b:7000,[::1]:7001/main/3")
    assert url.hosts == (("a", 26379), ("b", 7000), ("::1", 7001))
    assert (url.service, url.db, url.username, url.password, url.tls) == ("main", 3, "me", "p@ss/w", False)
    assert "p@ss" not in repr(url)


def test_what_is_left_out_has_a_default() -> None:
    url = sentinel_url("rediss+sentinel://:hush@a/main")
    assert (url.db, url.username, url.password, url.tls) == (0, None, "hush", True)


WRONG = [
    ("redis+sentinel://a:1,b:2", "lacks the name of the service"),
    ("redis+sentinel://a:1,b:2/", "lacks the name of the service"),
    ("redis+sentinel:///main", "it must be redis\\+sentinel://host:port"),
    ("redis+sentinel://hush@/main", "it must be redis\\+sentinel://host:port"),
    ("redis+sentinel://a:1,,b:2/main", "address of Sentinel 2 is not host:port"),
    ("redis+sentinel://a:99999/main", "address of Sentinel 1 is not host:port"),
    ("redis+sentinel://a:0/main", "address of Sentinel 1 is not host:port"),
    ("redis+sentinel://a:port/main", "address of Sentinel 1 is not host:port"),
    ("redis+sentinel://me:hush/hush@a:1/main", "a password written as %40 or %2F"),
    ("redis+sentinel://a:1/main/x", "database after the service must be a number"),
    ("redis+sentinel://a:1/main/0/1", "database after the service must be a number"),
    ("redis+sentinel://a:1/ma%20in", "name of the service may have"),
    ("redis+sentinel://a:1/main?password=hush", "has no options"),
    ("redis+sentinel://a:1/main/0#x", "has no options"),
    ("redis+sentinel://a:1/" + "m" * 101, "name of the service may have"),
    ("rediss+sentinels://a:1/main", "it has the wrong form"),
    ("sentinel://a:1/main", "it has the wrong form"),
]


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_a_wrong_address_is_refused_with_the_reason_and_without_its_password(text: str, reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RedisSettings(url=text)
    refused = invalid_input(caught.value, "settings")
    assert isinstance(refused, InvalidInput)
    with pytest.raises(InvalidInput, match=reason):
        raise refused
    assert "hush" not in str(refused)


def test_the_address_keeps_its_source_and_hides_its_password() -> None:
    settings = RedisSettings(url=Address("redis+sentinel://me:hush@a:1,b:2/main", "from the environment"))
    assert settings.address.named() == "redis+sentinel://me:********@a:1,b:2/main (from the environment)"
    assert "hush" not in repr(settings)


def test_a_view_is_named_by_its_service_and_its_sentinels_in_any_order() -> None:
    names = {
        open_view(RedisSettings(url=url, prefix="p")).address
        for url in ("redis+sentinel://me:hush@b:2,a:1/main", "rediss+sentinel://a:1,b:2/main/0")
    }
    assert names == {"main/0 of the Sentinels a:1,b:2, prefix p"}
    near = open_view(RedisSettings(url="redis+sentinel://127.0.0.1:1/main", prefix="p"))
    assert ":1 on " in near.address


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"url": "redis+sentinel://a:1/main", "tls_ca": "ca.pem"}, r"Write rediss://.*rediss\+sentinel://"),
        ({"url": "redis://a:1", "sentinel_password": "hush"}, "names none"),
        ({"url": "unix:///run/redis.sock", "sentinel_username": "me"}, "names none"),
    ],
)
def test_settings_that_do_not_go_with_the_address_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        connect(RedisSettings.model_validate(settings))
