"""What the public API refuses before any server is asked."""

from types import SimpleNamespace

import pytest

from backends.settings import PulsarSettings, RedisSettings
from dispatcher.errors import InvalidInput
from producers.client import PushClient


def test_numbers_that_make_no_sense_are_refused() -> None:
    settings = SimpleNamespace(pulsar=PulsarSettings(), redis=RedisSettings(url="redis://127.0.0.1:1/0"))
    with PushClient.connect(settings) as client:
        with pytest.raises(InvalidInput, match="limit: is 0"):
            client.task_page(limit=0)
        with pytest.raises(InvalidInput, match="concurrency: is 0"):
            client.submit_many([], concurrency=0)
