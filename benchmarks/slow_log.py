"""A channel that takes as long as a provider does, so that the workers, not their input, are the limit."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from consumers.delivery.channels.log import LogChannel
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import Report

NAME = "slow"
CALL_S = 0.1
CALLS = 8
"""Maximum number of concurrent calls."""


class SlowLog(LogChannel):
    """Writes the same lines as the `log` channel, one envelope per call."""

    concurrency = CALLS
    batch_limit = 1

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        await asyncio.sleep(CALL_S)
        return await super().deliver(envelopes, tier)


def environment(log: Path) -> dict[str, str]:
    """Return the environment of workers that serve it and write to this file."""
    classes, channels = {NAME: f"{__name__}:{SlowLog.__name__}"}, {NAME: {"path": str(log)}}
    return {"FAIRLANE_WORKER_CHANNELS": json.dumps(classes), "FAIRLANE_CHANNELS": json.dumps(channels)}
