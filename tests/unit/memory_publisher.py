"""A publisher of envelopes in memory."""

from collections.abc import Sequence

from dispatcher.ports import Done
from dispatcher.wire.envelope import Envelope
from lab.simulator.lanes import MemoryBroker
from lab.simulator.logs import Receipts


class MemoryPublisher:
    """Implements dispatcher.ports.EnvelopePublisher."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self.receipts = Receipts()

    def publish(self, lane: str, envelopes: Sequence[Envelope], done: Done) -> None:
        self.receipts.store(lambda: self._broker.publish(lane, envelopes), done)
