"""The `null` channel: send nothing and count the deliveries."""

from collections.abc import Mapping, Sequence
from typing import Any

from dispatcher.model.errors import InvalidInput
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, Report


class NullChannel:
    """Reports every target as sent immediately. For benchmarks and demos; it has no settings."""

    timeout_s = 1.0
    concurrency = 64
    batch_limit = 500

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.name = str(settings.get("name", "null"))
        unknown = sorted(set(settings) - {"name"})
        if unknown:
            raise InvalidInput(f"The null channel has no setting {unknown[0]}.", "Remove it.")
        self.envelopes = 0
        """Envelopes delivered so far."""
        self.targets = 0
        """Targets delivered so far."""

    async def open(self) -> None:
        """Do nothing."""

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:  # noqa: ARG002  # the port
        self.envelopes += len(envelopes)
        self.targets += sum([len(envelope.targets) for envelope in envelopes])
        return [ALL_SENT] * len(envelopes)

    async def close(self) -> None:
        """Do nothing."""
