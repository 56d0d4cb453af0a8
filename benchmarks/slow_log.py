"""A channel that takes as long as a provider does, so that the workers and not what they receive are the limit."""

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
"""At a time."""


class SlowLog(LogChannel):
    """Writes what the `log` channel writes, an envelope a call."""

    concurrency = CALLS
    batch_limit = 1

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        await asyncio.sleep(CALL_S)
        return await super().deliver(envelopes, tier)


def environment(log: Path) -> dict[str, str]:
    """Of workers that serve it and write to this file."""
    classes, channels = {NAME: f"{__name__}:{SlowLog.__name__}"}, {NAME: {"path": str(log)}}
    return {"FAIRLANE_WORKER_CHANNELS": json.dumps(classes), "FAIRLANE_CHANNELS": json.dumps(channels)}
