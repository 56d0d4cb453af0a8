"""The check of the use-by as it ships: consumers/delivery/calls.py is asked whether it still calls the provider."""

import asyncio

from consumers.delivery.calls import ChannelQueue
from consumers.delivery.channels.log import NullChannel
from consumers.delivery.fleet_gate import FleetGate
from dispatcher.ports import Batch
from dispatcher.wire.outcome import Report
from tests.virtual_clock import VirtualClock

DEADLINE_S = 30.0


class Provider(NullChannel):
    """A channel with one call at a time."""

    timeout_s = DEADLINE_S
    concurrency = 1


class UseByCheck:
    """Depends on times alone, so each answer is found out once."""

    def __init__(self) -> None:
        self._known: dict[tuple[float, float], bool] = {}

    def allows(self, batch: Batch, now_s: float) -> bool:
        """Return whether the provider is called for a batch that came in time and has its turn now."""
        times = batch.use_by_s, now_s
        if times not in self._known:
            self._known[times] = asyncio.run(_is_sent(batch, now_s))
        return self._known[times]


async def _is_sent(batch: Batch, now_s: float) -> bool:
    clock, provider = VirtualClock(), Provider({})
    reports: list[Report | None] = []
    calls = ChannelQueue(provider, asyncio.get_running_loop(), clock, FleetGate(clock))
    calls.put(batch, lambda _, found: reports.extend(found))
    clock.advance(now_s)
    assert await calls.idle(DEADLINE_S)
    called = provider.envelopes > 0
    assert all(report is not None for report in reports) is called, "a call that was not made has no report"
    return called
