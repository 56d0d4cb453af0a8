"""A client of Pulsar whose producers give the results that a test sets."""

from collections.abc import Callable
from typing import Any

import pulsar


class Client:
    """Its producers give the results set, one per record, then Ok; the first attempts to create one fail."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.failing = 0
        self.bodies: list[bytes] = []
        """Bodies of all records that were sent."""
        self.stored: list[bytes] = []
        """Bodies of the records whose result was Ok."""

    def create_producer(self, *_: object, send_timeout_millis: int, **__: object) -> "Client":
        assert send_timeout_millis > 0, "a producer may never get a receipt"
        if self.failing:
            self.failing -= 1
            raise pulsar.Timeout("no answer")
        return self

    @property
    def _producer(self) -> "Client":
        return self

    def send_async(self, message: Any, receipt: Callable[[Any, Any], None]) -> None:
        result = self.results.pop(0) if self.results else pulsar.Result.Ok
        self.bodies.append(message.data())
        if result == pulsar.Result.Ok:
            self.stored.append(message.data())
        receipt(result, pulsar.MessageId(-1, 1, 2, 0))

    def close_async(self, _closed: object) -> None: ...
