"""A client after a fork: what its parent's connection to Pulsar is needed for is refused at once; the rest works."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from backends.settings import PulsarSettings, RedisSettings
from dispatcher.model.errors import FairlaneError
from dispatcher.model.view_home import EarlierViews
from producers.async_client import AsyncPushClient
from producers.client import PushClient
from producers.settings import ProducerOptions

SETTINGS = SimpleNamespace(
    pulsar=PulsarSettings(url="pulsar://127.0.0.1:1", admin_url="http://127.0.0.1:1"),
    redis=RedisSettings(url="redis://127.0.0.1:1/0"),
    producer=ProducerOptions(),
)


class Pulsar:
    """In place of a connection: closing it in another process would wait for ever."""

    def __init__(self, _settings: object) -> None:
        self.pid = os.getpid()

    def services(self, *_: object) -> None:
        raise FairlaneError(f"used by {os.getpid()}")

    def earlier_views(self, *_: object) -> EarlierViews:
        return EarlierViews()

    def close(self) -> None:
        assert os.getpid() == self.pid


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> PushClient:
    monkeypatch.setattr("producers.pulsar_connection.PulsarConnection", Pulsar)
    return PushClient.connect(SETTINGS)


def in_child(act: Callable[[], object]) -> str:
    """Return the result of a call, or the text of its error, in a forked child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            message = str(act())
        except FairlaneError as error:
            message = f"{type(error).__name__}: {error}"
        except BaseException as error:
            message = repr(error)
        os.write(writing, message.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        message = answer.read()
    os.waitpid(pid, 0)
    return message


def use(client: PushClient) -> str:
    """Return the error of a call that needs Pulsar."""
    with pytest.raises(FairlaneError) as caught:
        client.set_capacity(1)
    return f"{caught.type.__name__}: {caught.value}"


def test_a_client_used_before_a_fork_says_so_in_the_child(client: PushClient) -> None:
    use(client)
    message = in_child(lambda: use(client))
    assert message.startswith(f"Refused: This client belongs to process {os.getpid()}")
    assert "PushClient.connect in each process" in message
    assert f"used by {os.getpid()}" in use(client)


def test_submitting_and_steering_say_it(client: PushClient) -> None:
    use(client)
    for act in (lambda: client.submit(None, []), lambda: client.set_capacity(1), lambda: client.pause_channel("x")):  # type: ignore[arg-type]
        assert in_child(act).startswith("Refused: This client belongs to process")


def test_a_lock_that_a_thread_held_during_the_fork_holds_up_nobody(
    client: PushClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting, go_on = threading.Event(), threading.Event()

    def wait_for_pulsar(*_: object) -> None:
        connecting.set()
        go_on.wait(5.0)
        raise FairlaneError("Too slow.")

    monkeypatch.setattr(Pulsar, "services", wait_for_pulsar)
    with ThreadPoolExecutor(1) as threads:
        used = threads.submit(use, client)
        assert connecting.wait(5.0)
        assert in_child(lambda: use(client)).startswith("Refused: ")
        go_on.set()
        assert "Too slow" in used.result()


def test_a_client_made_before_a_fork_and_used_after_it_works(client: PushClient) -> None:
    """As a web server does that loads the application first (gunicorn --preload)."""
    assert "used by" in in_child(lambda: use(client))
    assert f"used by {os.getpid()}" in use(client)


def test_a_child_closes_only_what_is_its_own(client: PushClient) -> None:
    use(client)
    assert in_child(client.close) == "None"
    use(client)


def test_an_async_client_says_it_too(client: PushClient) -> None:
    proxy = AsyncPushClient(client, ThreadPoolExecutor(1))

    async def tasks() -> object:
        return await proxy.tasks()

    assert in_child(lambda: asyncio.run(tasks())).startswith("Refused: This client belongs to process")
