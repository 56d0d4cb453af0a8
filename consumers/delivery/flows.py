"""The flows of one channel: each has a queue of its own, so that the trouble of one is felt by no other."""

import asyncio

from consumers.delivery.calls import ChannelLoad, ChannelQueue, targets_per_request
from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.flow_figures import FlowFigures, FlowTable
from consumers.delivery.pending import Sent
from dispatcher.clock import Clock
from dispatcher.model.flow_pause import flow_name, flow_parts
from dispatcher.ports import AnyChannel, Batch

MAX_IDLE_FLOWS = 1_000
"""Maximum queues of a channel. Beyond it, queues without a batch are forgotten."""

MAX_BATCHES = 256


def busy_batches(concurrency: int) -> int:
    """Return how many batches keep that many calls busy: one for each, and some that wait."""
    return concurrency * 5 // 4 + 1


class ChannelFlows:
    """Queues of one channel, by flow.

    A flow of a TargetChannel is an app, which has credentials and limits of its own. A BatchChannel has one flow, since
    nothing is known about its limits.
    """

    def __init__(
        self, channel: AnyChannel, loop: asyncio.AbstractEventLoop, clock: Clock, gate: FleetGate, figures: FlowTable
    ) -> None:
        self.channel = channel
        self._figures = figures
        self._gate = gate
        self.timeout_s = channel.timeout_s
        self.call_limit = max(1, channel.batch_limit)
        self._by_app = hasattr(channel, "deliver_targets")
        self.target_count: int = getattr(channel, "busy_targets", 0)
        """The number of targets that keep a flow busy; 0 if the channel does not know."""
        self.targets_per_request = targets_per_request(channel)
        """Maximum targets in one request to the provider; 0: all of an envelope."""
        self._loop = loop
        self._clock = clock
        self._queues: dict[str, ChannelQueue] = {}
        self._forgotten_calls = 0

    @property
    def batch_count(self) -> int:
        """The number of batches that keep a flow busy. Where the number of targets is bounded, a batch may be a single
        target, as calls take several."""
        return MAX_BATCHES if self.target_count else busy_batches(self.channel.concurrency)

    def name(self, app: str) -> str:
        """Return the flow of an app's envelopes."""
        return flow_name(self.channel.name, app) if self._by_app else self.channel.name

    @property
    def in_flight(self) -> ChannelLoad:
        loads = [queue.in_flight for queue in list(self._queues.values())]
        return ChannelLoad(*map(sum, zip(*loads, strict=True))) if loads else ChannelLoad()

    @property
    def calls_settled(self) -> int:
        """The number of calls settled so far."""
        return self._forgotten_calls + sum(queue.calls_settled for queue in list(self._queues.values()))

    def oldest(self) -> object | None:
        """Return the batch that has waited longest for its report, or None. May be called from any thread."""
        waiting = [oldest for queue in list(self._queues.values()) if (oldest := queue.oldest()) is not None]
        return min(waiting, key=lambda pending: pending.since_s) if waiting else None

    def put(self, batch: Batch, sent: Sent) -> None:
        """Put a batch into the queue of its flow. See ChannelQueue.put."""
        queue = self._queues.get(batch.flow)
        if queue is None:
            if len(self._queues) >= MAX_IDLE_FLOWS:
                self._forget_idle()
            queue = self._queues[batch.flow] = ChannelQueue(
                self.channel, self._loop, self._clock, self._gate, self._figures_of(batch.flow)
            )
        queue.put(batch, sent)

    def _figures_of(self, flow: str) -> FlowFigures | None:
        """Return the figures of a flow; None for a channel that keeps them itself."""
        if hasattr(self.channel, "use"):
            return None
        app = flow_parts(flow)[1] if self._by_app else ""
        return self._figures.of(self.channel.name, app, self.channel.concurrency)

    def start(self) -> None:
        """Start the calls of all batches put so far."""
        for queue in list(self._queues.values()):
            queue.start()

    async def idle(self, until_s: float) -> None:
        """Wait until no call is in progress or waiting, at most until this monotonic time."""
        for queue in list(self._queues.values()):
            await queue.idle(max(0.0, until_s - self._clock.monotonic_s()))

    async def abort(self) -> None:
        """End the remaining calls. See ChannelQueue.abort."""
        for queue in list(self._queues.values()):
            await queue.abort()

    def hand_over(self) -> None:
        """See ChannelQueue.hand_over."""
        for queue in list(self._queues.values()):
            queue.hand_over()

    def _forget_idle(self) -> None:
        for name, queue in list(self._queues.items()):
            if queue.oldest() is None and not queue.in_flight.calls:
                self._forgotten_calls += queue.calls_settled
                del self._queues[name]
