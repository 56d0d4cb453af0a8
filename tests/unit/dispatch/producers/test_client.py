"""A client: calls that it refuses before it asks any server, and what it does after a fork."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from backends.settings import ProducerOptions, PulsarSettings, RedisSettings
from dispatcher.model.errors import FairlaneError, InvalidInput, Refused
from dispatcher.model.task import PushTask
from dispatcher.model.view_home import EarlierViews
from producers.client import AsyncPushClient, PushClient

SETTINGS = SimpleNamespace(
    pulsar=PulsarSettings(url="pulsar://127.0.0.1:1", admin_url="http://127.0.0.1:1"),
    redis=RedisSettings(url="redis://127.0.0.1:1/0"),
    producer=ProducerOptions(),
)


@pytest.mark.parametrize(
    "use",
    [
        lambda client: client.tasks(),
        lambda client: client.globals(),
        lambda client: client.set_capacity(5),
        lambda client: client.submit(PushTask(app="shop", tier="low", channel="log", message="Hi"), ["a"]),
    ],
)
def test_a_closed_client_says_so(use: Callable[[PushClient], object]) -> None:
    """It connected again to look at tasks; a submission was told to be repeated with the same id."""
    client = PushClient.connect(SETTINGS)
    client.close()
    client.close()
    with pytest.raises(Refused, match="This client is closed"):
        use(client)


def test_numbers_that_make_no_sense_are_refused() -> None:
    with PushClient.connect(SETTINGS) as client:
        with pytest.raises(InvalidInput, match="limit: is 0"):
            client.task_page(limit=0)
        with pytest.raises(InvalidInput, match="concurrency: is 0"):
            client.submit_many([], concurrency=0)
        with pytest.raises(InvalidInput, match="high: is '6'; it must be"):
            client.set_tiers(high="6", medium=3, low=1)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="limit: is '5'; it must be a whole number"):
            client.limit_app("shop", tasks="5")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="cap of app shop: is None; it must be a whole number"):
            client.cap_app("shop", None)  # type: ignore[arg-type]


# ------------------------------------------------------------------ after a fork
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
