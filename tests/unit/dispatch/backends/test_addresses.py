"""Addresses of servers: where they were configured, what is said where one is missing or refuses."""

import pickle
import socket
from typing import Any

import pytest
from redis import exceptions

from backends.addresses import Address
from backends.pulsar import client as pulsar_client
from backends.redis import client as redis_client
from backends.settings import PulsarSettings, RedisSettings, require_addresses
from benchmarks.redis_server import free_port
from dispatcher.model.errors import FairlaneError, InvalidInput, NotConfigured, Unreachable

HERE = "from the environment"


def test_an_address_shows_no_password_in_a_repr() -> None:
    settings = RedisSettings(url="redis://me:hush@host:1/0")
    assert "hush" not in repr(settings)
    assert "host:1/0" in repr(settings)
    assert "hush" not in settings.address.named()
    assert settings.address == "redis://me:hush@host:1/0"


def test_an_address_knows_its_source_also_in_another_process() -> None:
    settings = RedisSettings(url=Address("redis://host:1/0", HERE, stopped=True))
    copy = pickle.loads(pickle.dumps(settings))
    assert isinstance(copy.url, Address)
    assert (copy.url, copy.url.source, copy.url.stopped) == ("redis://host:1/0", HERE, True)
    assert copy == settings


@pytest.mark.parametrize(
    ("pulsar", "redis", "missing", "given"),
    [
        ({}, {}, ["pulsar.url, pulsar.admin_url and redis.url", "FAIRLANE_REDIS_URL"], "nothing"),
        ({"url": "pulsar://h:1"}, {"url": "redis://h:1"}, ["pulsar.admin_url is not set"], "redis.url"),
        ({"url": "pulsar://h:1", "admin_url": "http://h:1"}, {}, ["Redis is not configured"], "pulsar.url"),
    ],
)
def test_what_is_missing_is_named_and_nothing_else(
    pulsar: dict[str, Any], redis: dict[str, Any], missing: list[str], given: str
) -> None:
    with pytest.raises(NotConfigured) as caught:
        require_addresses(PulsarSettings(**pulsar), RedisSettings(**redis))
    assert isinstance(caught.value, InvalidInput)
    assert "fairlane stack up" in caught.value.next_step
    assert all(part in str(caught.value) for part in missing)
    assert given not in str(caught.value)


# ---------------------------------------------------------------- Pulsar
def test_a_pulsar_that_refuses_is_said_before_a_client_is_made() -> None:
    """The client itself tries for operation_timeout_s and then says that it timed out."""
    url = Address(f"pulsar://me:hush@127.0.0.1:{free_port()}", HERE)
    with pytest.raises(Unreachable) as caught:
        pulsar_client.connect(PulsarSettings(url=url, operation_timeout_s=600))
    assert f"@{url.partition('@')[2]} ({HERE}) cannot be connected to: Connection refused" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_credentials_of_several_hosts_are_shown_of_none() -> None:
    url = f"pulsar://me:hush@127.0.0.1:{free_port()},you:hush@127.0.0.1:{free_port()}"
    with pytest.raises(Unreachable, match="Connection refused by") as caught:
        pulsar_client.check_accepts(PulsarSettings(url=url))
    assert "hush" not in str(caught.value)


def test_a_host_that_does_not_exist_is_said_at_once() -> None:
    with pytest.raises(Unreachable, match=r"pulsar://nowhere\.invalid:6650"):
        pulsar_client.check_accepts(PulsarSettings(url="pulsar://nowhere.invalid:6650"))


def test_one_of_several_hosts_is_enough() -> None:
    refusing = f"127.0.0.1:{free_port()}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = f"127.0.0.1:{server.getsockname()[1]}"
        pulsar_client.check_accepts(PulsarSettings(url=f"pulsar://{refusing},{accepting}/"))
    with pytest.raises(Unreachable, match=f"Connection refused by {refusing}, Connection refused by {accepting}"):
        pulsar_client.check_accepts(PulsarSettings(url=f"pulsar://{refusing},{accepting}/"))


@pytest.mark.parametrize("host", ["[::1", "h:port", "127.0.0.1:1,:x", "h:99999", ":6650", f"{'x' * 64}.example", ""])
def test_what_is_no_address_is_refused_in_our_words(host: str) -> None:
    settings = PulsarSettings.model_construct(url=f"pulsar://{host}", connect_timeout_s=0.1)
    with pytest.raises(InvalidInput, match=r"Pulsar's address pulsar://.* is not valid: "):
        pulsar_client.connect(settings)


def test_a_pulsar_client_that_loses_its_server_names_the_address() -> None:
    client = object.__new__(pulsar_client.PulsarClient)
    client.address = Address("pulsar://there:1", HERE)
    error = pulsar_client.error_of("Timeout", "read a topic", client)
    assert error.cause == (
        f"Pulsar at pulsar://there:1 ({HERE}): could not read a topic: it did not answer in time (Timeout)."
    )


# ---------------------------------------------------------------- Redis
WANTS_PASSWORD = "Redis at redis://there:1/0 (from the environment) requires a password and none is set."


@pytest.mark.parametrize(
    ("vendor", "kind", "cause"),
    [
        (exceptions.AuthenticationError("Authentication required."), Unreachable, WANTS_PASSWORD),
        (exceptions.ResponseError("NOAUTH Authentication required."), Unreachable, WANTS_PASSWORD),
        (exceptions.ResponseError("Protocol error: unauthenticated multibulk length"), Unreachable, WANTS_PASSWORD),
        (exceptions.ResponseError("Protocol error: unauthenticated bulk length"), Unreachable, WANTS_PASSWORD),
        (exceptions.ResponseError("WRONGPASS invalid username-password pair"), Unreachable, "refuses the user name"),
        (exceptions.ConnectionError("refused"), Unreachable, "cannot be reached: refused"),
        (exceptions.TimeoutError("Timeout connecting to server"), Unreachable, "did not answer in time"),
        (exceptions.ResponseError("WRONGTYPE"), FairlaneError, "answered with an error"),
    ],
)
def test_every_error_of_redis_names_the_address(vendor: Exception, kind: type[FairlaneError], cause: str) -> None:
    client = redis_client.connect(RedisSettings(url=Address("redis://there:1/0", HERE)))
    with pytest.raises(kind) as caught, redis_client.translated(client):
        raise vendor
    assert cause in caught.value.cause
    assert f"Redis at redis://there:1/0 ({HERE})" in caught.value.cause
    assert type(caught.value) is kind


def test_a_client_with_another_timeout_names_the_address_too() -> None:
    client = redis_client.connect(RedisSettings(url=Address("redis://there:1/0", HERE)))
    assert redis_client.with_read_timeout(client, 3.0).address.source == HERE
