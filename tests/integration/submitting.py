"""Submits one task and dies in the middle. Started as a process of its own, so that it can be killed for good.

Arguments: settings as JSON, task id, what to wait for before dying (`checkpoint`, `more` or `end`).
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

from backends.redis.registry.registry import Registry
from backends.redis.view import open_view
from backends.settings import ProducerOptions, PulsarSettings, RedisSettings
from dispatcher.model.task import PushTask
from producers.client import PushClient

TARGETS = 60_000
CHUNK = 10
_PACE = 500


def push(task: str) -> PushTask:
    return PushTask(id=task, app="shop", tier="high", channel="null", message="Hi", chunk=CHUNK)


def audience() -> Iterator[str]:
    return (f"target-{number}" for number in range(TARGETS))


def main() -> None:
    given = json.loads(sys.argv[1])
    pulsar, redis = PulsarSettings(**given["pulsar"]), RedisSettings(**given["redis"])
    settings = SimpleNamespace(pulsar=pulsar, redis=redis, producer=ProducerOptions())
    with PushClient.connect(settings) as client, closing(open_view(redis)) as view:
        client.submit(push(sys.argv[2]), _dying(Registry(view), sys.argv[2], sys.argv[3]))


def _dying(registry: Registry, task: str, when: str) -> Iterator[str]:
    """Slow enough for checkpoints to be due while it lasts."""
    seen = 0
    for number, target in enumerate(audience()):
        if number % _PACE == 0:
            time.sleep(0.01)
            known = registry.submissions.submission(task)
            seen += known is not None and known.checkpoint is not None
        if (when == "checkpoint" and seen == 1) or (when == "more" and seen == 20):
            os.kill(os.getpid(), signal.SIGKILL)
        yield target
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
