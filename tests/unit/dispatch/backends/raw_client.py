"""A client of Pulsar whose producers give the results that a test sets."""

from collections.abc import Callable
from typing import Any

import pulsar


class Checks:
    """Checks of producers, made by the test."""

    def __init__(self) -> None:
        self._calls: set[Callable[[], object]] = set()

    def add(self, call: Callable[[], object], _every_s: float) -> None:
        self._calls.add(call)

    def remove(self, call: Callable[[], object]) -> None:
        self._calls.discard(call)

    def make(self, times: int = 1) -> None:
        for _ in range(times):
            for call in list(self._calls):
                call()

    def __len__(self) -> int:
        return len(self._calls)


class Client:
    """Its producers give the results set, one per record, then Ok; the first attempts to create one fail.

    A result None is no receipt at all.
    """

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.checks = Checks()
        self.failing = 0
        self.bodies: list[bytes] = []
        """Bodies of all records that were sent."""
        self.stored: list[bytes] = []
        """Bodies of the records whose result was Ok."""

    def create_producer(self, *_: object, **__: object) -> "Client":
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
        if result is not None:
            receipt(result, pulsar.MessageId(-1, 1, 2, 0))

    def close_async(self, _closed: object) -> None: ...


class SilentProducer:
    """Keeps what it is sent, and answers when the test says so."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.receipts: list[Callable[[Any, Any], None] | None] = []
        self.closed = False

    def send_async(self, message: Any, receipt: Callable[[Any, Any], None] | None) -> None:
        self.bodies.append(message.data())
        self.receipts.append(receipt)

    def answer(self, result: Any, count: int | None = None) -> None:
        """Answer what was sent: the first `count` messages, or all."""
        receipts, self.receipts = self.receipts[:count], [] if count is None else self.receipts[count:]
        for receipt in receipts:
            if receipt is not None:
                receipt(result, pulsar.MessageId(-1, 1, 2, 0))

    def close_async(self, _closed: object) -> None:
        self.closed = True
        self.answer(pulsar.Result.AlreadyClosed)
