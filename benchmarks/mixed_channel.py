"""A channel that answers as a provider does on a bad day: refused calls, and dead tokens in every envelope."""

import json
from collections.abc import Sequence

from consumers.delivery.channels.log import NullChannel
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import RETRY, Outcome, Report, Verdict

NAME = "mixed"
REFUSED, DEAD = 5, 10
"""One in this many envelopes is refused in its first attempt; one in this many targets is dead."""
_BUSY = Report(Verdict(RETRY, "HTTP 503"))
_GONE = Verdict(int(Outcome.INVALID), "unregistered")


class MixedChannel(NullChannel):
    """Answers with mixed outcomes and takes no time."""

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        await super().deliver(envelopes, tier)
        return [_report(envelope) for envelope in envelopes]


def _report(envelope: Envelope) -> Report:
    if envelope.attempt == 0 and envelope.sequence % REFUSED == 0:
        return _BUSY
    return Report(exceptions=dict.fromkeys(range(envelope.sequence % DEAD, len(envelope.targets), DEAD), _GONE))


def environment() -> dict[str, str]:
    """Return the environment of workers that serve it."""
    return {"FAIRLANE_WORKER_CHANNELS": json.dumps({NAME: f"{__name__}:{MixedChannel.__name__}"})}
