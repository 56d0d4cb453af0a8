"""The engine's ports over the simulated service: their work takes time, and may fail on the way."""

from collections import deque
from collections.abc import Callable, Sequence

from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Refused, Unreachable
from dispatcher.ports import Batch, DeadLetter, Delivery, Done, LaneInfo, Ledger, OutcomeLog
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest
from dispatcher.wire.outcome import ALL_SENT, RETRY, Outcome, OutcomeRecord, Report, Verdict
from lab.simulator.findings.run_log import RunLog
from lab.simulator.lanes import MemoryBroker, MemoryLanes
from lab.simulator.run.agenda import Call
from lab.simulator.run.network import TIMEOUT_S, Network
from lab.simulator.scenario.scenario import Channel

Answered = Callable[[LeaseAnswer | None, Exception | None], None]
Sent = Callable[[Batch, Sequence[Report | None]], None]
INVALID = Verdict(int(Outcome.INVALID), "no such device")
BUSY = Verdict(RETRY, "busy")


class SimLeaseCaller:
    """Implements dispatcher.ports.LeaseCaller: calls may be late, lost in either direction, or made twice."""

    def __init__(self, ledger: Ledger, network: Network) -> None:
        self._ledger = ledger
        self._network = network

    def ask(self, request: LeaseRequest, answered: Answered) -> None:
        network = self._network
        waiting = [answered]

        def answer(result: LeaseAnswer | None, error: Exception | None) -> None:
            if waiting:
                waiting.pop()(result, error)

        def give_up() -> None:
            if waiting:
                answer(None, Unreachable("No answer."))

        network.agenda.after(TIMEOUT_S, give_up)
        for _ in range(2 if network.hits(network.faults.doubled) else 1):
            if not network.hits(network.faults.lost):
                network.carry(lambda: self._arrive(request, answer))

    def _arrive(self, request: LeaseRequest, answer: Answered) -> None:
        network = self._network
        try:
            result = self._ledger.lease(request)
        except Refused:
            return  # an old copy that a later call overtook: no caller waits for its answer
        except FairlaneError as error:
            failure = error
            network.carry(lambda: answer(None, failure))
            return
        if not network.hits(network.faults.lost):
            network.carry(lambda: answer(result, None))


def _stored(network: Network, store: Call, done: Done) -> None:
    """Store something with a broker: the request or its receipt may be lost."""

    def arrive() -> None:
        error = None
        try:
            store()
        except FairlaneError as failure:
            error = failure
        if error is None and network.hits(network.faults.lost / 2):
            network.agenda.after(TIMEOUT_S, lambda: done(Unreachable("The receipt was lost.")))
        else:
            network.carry(lambda: done(error))

    if network.hits(network.faults.lost / 2):
        network.agenda.after(TIMEOUT_S, lambda: done(Unreachable("The broker did not take it.")))
    else:
        network.carry(arrive, 1, 4)


class SimOutcomes:
    """Implements dispatcher.ports.OutcomeLog. `added` is called after each record that is added."""

    def __init__(self, log: OutcomeLog, network: Network, added: Call) -> None:
        self._log = log
        self._network = network
        self._added = added

    def publish(self, task: str, record: OutcomeRecord, done: Done) -> None:
        def add() -> None:
            self._log.publish(task, record, lambda _: None)
            self._added()

        _stored(self._network, add, done)


class SimPublisher:
    """Implements dispatcher.ports.EnvelopePublisher."""

    def __init__(self, broker: MemoryBroker, network: Network) -> None:
        self._broker = broker
        self._network = network

    def publish(self, lane: str, envelopes: Sequence[Envelope], done: Done) -> None:
        _stored(self._network, lambda: self._broker.publish(lane, envelopes), done)


class SimDeadLetters:
    """Implements dispatcher.ports.DeadLetters; only their targets are counted."""

    def __init__(self, network: Network) -> None:
        self.count = 0
        self._network = network

    def publish(self, letter: DeadLetter, done: Done) -> None:
        self.count += max(1, len(letter.targets))
        self._network.carry(lambda: done(None), 1, 4)


class SimLanes(MemoryLanes):
    """Lanes that take a moment to attach, and acks that are forgotten."""

    def __init__(self, broker: MemoryBroker, ready: Callable[[str], None], clock: Clock, network: Network) -> None:
        super().__init__(broker, lambda lane: network.carry(lambda: ready(lane), 1, 8), clock)
        self._network = network
        self.gone = False

    def attach(self, lane: LaneInfo, prefetch_targets: int) -> None:
        if not self.gone:
            super().attach(lane, prefetch_targets)

    def ack(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        if self._network.hits(self._network.faults.lost / 4):
            self._broker.refuse_acks += len(deliveries)
        super().ack(lane, deliveries)

    def crash(self) -> None:
        self.gone = True
        super().crash()


class SimCourier:
    """Implements dispatcher.ports.Courier for one worker: a limited number of calls at once, each taking some time.

    `awake` runs a call once the worker's process runs.
    """

    def __init__(
        self,
        worker: str,
        clock: Clock,
        network: Network,
        channels: Callable[[str], Channel],
        journal: RunLog,
        awake: Callable[[Call], None],
    ) -> None:
        self._worker = worker
        self._clock = clock
        self._network = network
        self._channels = channels
        self._journal = journal
        self._awake = awake
        self._queues: dict[str, deque[tuple[Batch, Sent]]] = {}
        self._running: dict[str, int] = {}

    def flow(self, channel: str, _app: str, /) -> str:
        return channel

    def batch_limit(self, channel: str) -> int:
        return self._channels(channel).batch_limit

    def send(self, batch: Batch, sent: Sent) -> None:
        self._queues.setdefault(batch.channel, deque()).append((batch, sent))
        self._start(batch.channel)

    def _start(self, name: str) -> None:
        queue, channel = self._queues[name], self._channels(name)
        while queue and self._running.get(name, 0) < channel.concurrency:
            batch, sent = queue.popleft()
            if self._clock.monotonic_s() >= batch.use_by_s:
                sent(batch, [None] * len(batch.deliveries))
                continue
            self._running[name] = self._running.get(name, 0) + 1
            self._journal.called(self._worker, batch)
            self._call(batch, sent, channel)

    def _call(self, batch: Batch, sent: Sent, channel: Channel) -> None:
        takes_ms = channel.call_ms * self._network.random.uniform(0.8, 1.2) + channel.target_us * batch.targets / 1000
        self._network.agenda.after(takes_ms / 1000, lambda: self._awake(lambda: self._end(batch, sent, channel)))

    def _end(self, batch: Batch, sent: Sent, channel: Channel) -> None:
        self._running[batch.channel] -= 1
        sent(batch, [self._report(delivery.envelope, channel) for delivery in batch.deliveries])
        self._start(batch.channel)

    def _report(self, envelope: Envelope, channel: Channel) -> Report:
        if not (channel.invalid or channel.retry):
            return ALL_SENT
        exceptions, draw = {}, self._network.random.random
        invalid, failed = channel.invalid, channel.invalid + channel.retry
        for index in range(len(envelope.targets)):
            drawn = draw()
            if drawn < failed:
                exceptions[index] = INVALID if drawn < invalid else BUSY
        return Report(exceptions=exceptions) if exceptions else ALL_SENT
