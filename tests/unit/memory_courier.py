"""A courier in memory with scripted channels, which answers at once or on command."""

from collections.abc import Callable, Sequence

from dispatcher.clock import Clock
from dispatcher.ports import Batch
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, Report

Sent = Callable[[Batch, Sequence[Report | None]], None]
Script = Callable[[Envelope], Report]


def all_sent(_envelope: Envelope) -> Report:
    """Accept everything: the script of a perfect channel."""
    return ALL_SENT


class MemoryCourier:
    """Implements dispatcher.ports.Courier. `script` returns the provider's answer to an envelope."""

    def __init__(self, clock: Clock, script: Script = all_sent) -> None:
        self.calls: list[Envelope] = []
        """Every envelope the provider was called for."""
        self.paused: set[str] = set()
        """Channels that answer only when `answer` is called."""
        self._clock = clock
        self._script = script
        self._waiting: list[tuple[Batch, Sent]] = []

    def send(self, batch: Batch, sent: Sent) -> None:
        if batch.channel in self.paused:
            self._waiting.append((batch, sent))
        else:
            sent(batch, self._deliver(batch))

    def flow(self, channel: str, _app: str, /) -> str:
        return channel

    def batch_limit(self, _channel: str, /) -> int:
        return 100

    @property
    def waiting(self) -> list[Batch]:
        """Batches of paused channels."""
        return [batch for batch, _ in self._waiting]

    def answer(self, max_batches: int | None = None) -> None:
        """Continue paused calls whose use-by is still ahead."""
        count = len(self._waiting) if max_batches is None else max_batches
        answered, self._waiting = self._waiting[:count], self._waiting[count:]
        for batch, sent in answered:
            sent(batch, self._deliver(batch))

    def _deliver(self, batch: Batch) -> list[Report | None]:
        if self._clock.monotonic_s() >= batch.use_by_s:
            return [None] * len(batch.deliveries)
        reports: list[Report | None] = []
        for delivery in batch.deliveries:
            self.calls.append(delivery.envelope)
            reports.append(self._script(delivery.envelope))
        return reports
