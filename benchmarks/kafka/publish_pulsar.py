"""Publish with Pulsar's client as it is: a producer for each topic, and a receipt for every fiftieth message."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pulsar

from backends.pulsar.client import connect
from backends.settings import PulsarSettings
from benchmarks.kafka.load import BATCH_BYTES, Load, Window, main

RECEIPT_EVERY = 50
OPENED_AT_ONCE = 16
NAMESPACE = "persistent://public/default"


class PulsarPublisher:
    """Keeps a window of its own over all topics, since the client has only one for each."""

    def __init__(self, load: Load) -> None:
        self._client = connect(PulsarSettings(url=load.address, operation_timeout_s=120))
        self._window = Window()
        options = {
            "batching_enabled": True,
            "batching_max_messages": 1_000,
            "batching_max_allowed_size_in_bytes": BATCH_BYTES,
            "batching_max_publish_delay_ms": load.linger_ms,
            "block_if_queue_full": True,
            "max_pending_messages": 100_000,
            "send_timeout_millis": 0,
        }
        create = partial(self._client.create_producer, **options)
        with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
            self._producers = list(pool.map(create, (f"{NAMESPACE}/{name}" for name in load.names())))
        # Topics have their receipts at different moments, or the count would move once in 50 rounds.
        self._pending = [number % RECEIPT_EVERY for number in range(load.topics)]
        self._first = sum(self._pending)
        self._confirmed = partial(self._answered, RECEIPT_EVERY)

    def send(self, topic: int, bodies: Sequence[bytes]) -> None:
        self._window.add(len(bodies))
        send = self._producers[topic].send_async
        for body in bodies:
            self._pending[topic] += 1
            if self._pending[topic] == RECEIPT_EVERY:
                self._pending[topic] = 0
                send(body, self._confirmed)
            else:
                send(body, None)

    def confirmed(self) -> int:
        return self._window.confirmed()

    def settle(self, timeout_s: float) -> None:
        """Wait for all that have a receipt to come; receipts come in order, topic by topic."""
        self._window.settle(sum(self._pending) - self._first, timeout_s)

    def _answered(self, messages: int, result: Any, _message_id: Any) -> None:
        self._window.confirm(messages, None if result == pulsar.Result.Ok else result)


if __name__ == "__main__":
    main(PulsarPublisher)
