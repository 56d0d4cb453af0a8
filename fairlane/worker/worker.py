"""One worker process: its parts, its start, and its end."""

import logging
import os
import queue
import secrets
import socket
import threading
from functools import partial

from backends.pulsar import client as pulsar_client
from backends.pulsar.dead_letter_topic import DeadLetterTopic
from backends.pulsar.lane_publisher import LanePublisher
from backends.redis.letter_index import LetterIndex
from backends.redis.registry.registry import Feed
from backends.redis.view import CLAIM_MAX_MS
from consumers.delivery.channel_registry import ChannelContext, load_channels
from consumers.delivery.courier import ChannelCourier, ClockLoop
from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.flow_figures import FlowTable
from consumers.lanes.give_back import MissingChannels
from consumers.lanes.prefetch import PrefetchSettings
from consumers.lanes.pulsar_lanes import LaneSettings, PulsarLanes
from consumers.upkeep.flow_pauses import FlowPauses
from consumers.upkeep.lane_cleanup import create_missing_lane
from consumers.upkeep.task_stops import TaskStops
from dispatcher.channels.guards.trouble import MessageRefusal
from dispatcher.clock import Clock, ServiceClock
from dispatcher.engine.engine import Engine
from dispatcher.engine.events import Drain, LaneReady
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.shared import EnginePorts
from dispatcher.model.errors import Hung
from dispatcher.ports import Done
from dispatcher.scheduling.rotation import RotationSettings
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.lease import ChannelTerms
from fairlane import __version__
from fairlane.settings import Settings
from fairlane.worker.connections import CLOSE_S, open_pulsar, open_redis
from fairlane.worker.engine_ports import EngineInbox, LeaseThread
from fairlane.worker.live_lanes import LiveLaneSettings
from fairlane.worker.process.standby import FormWatch
from fairlane.worker.process.threads import Threads
from fairlane.worker.process.watchdog import Signs, Watchdog, channel_part, exit_within, watchdog_settings
from fairlane.worker.report.heartbeat import Heartbeat, WorkerIdentity
from fairlane.worker.report.metrics import (
    CallTimes,
    EngineCollector,
    FlowCollector,
    MetricsServer,
    ServiceCollector,
    serve_metrics,
)
from fairlane.worker.report.send_notes import SendNotes
from fairlane.worker.report.service_view import ServiceView
from fairlane.worker.shared_jobs import SharedJobs
from fairlane.worker.watcher import LaneWatcher, WatchSettings

_log = logging.getLogger(__name__)
_LEASE_MS = 2_000
_MARGIN_MS = 1_000
_LEAVE_S = 3.0
"""How long the threads of a hung worker may take to release their locks."""
_END_WITHIN_S = 90.0
"""Longer than closing takes if every part uses its full time."""


def worker_id(name: str | None) -> str:
    """Return an id that is new at every start: claims carry it, and claims of an earlier start are not ours."""
    return f"{name or f'{socket.gethostname()}-{os.getpid()}'}-{secrets.token_hex(3)}"


def engine_settings(worker: str, settings: Settings, courier: ChannelCourier) -> EngineSettings:
    """Return the settings of a worker's engine. A claim outlasts every call that begins within its lease."""
    return EngineSettings(
        worker=worker,
        budget_targets=settings.worker.buffer_targets,
        lane_ceiling_targets=settings.worker.buffer_targets // 2,
        unsettled_targets=settings.worker.buffer_targets * 3 // 4,
        held_targets=settings.worker.buffer_targets // 4,
        lease_ms=_LEASE_MS,
        claim_ms=_LEASE_MS + round(courier.longest_timeout_s * 1000) + _MARGIN_MS,
        channel_batches=courier.batch_counts(),
        channel_targets=courier.target_counts(),
        channel_terms={
            name: ChannelTerms(_LEASE_MS + round(timeout_s * 1000) + _MARGIN_MS, courier.targets_per_request(name))
            for name, timeout_s in courier.timeouts_s.items()
        },
        named_targets=settings.journal.targets,
    )


class Worker:
    """A worker: joins when started and leaves when `stop` is set: starting -> serving -> draining -> stopped.

    Raises, at construction, FairlaneError if a server cannot be reached or a channel cannot be opened.
    """

    def __init__(self, settings: Settings, name: str | None, clock: Clock) -> None:
        self.id = worker_id(name)
        self.state = "starting"
        self._settings = settings
        self._clock = clock = ServiceClock(clock)
        self._turns = 0
        self._over = threading.Event()
        self._threads = Threads(self._over)
        self._calls = CallTimes()
        self._letters_counted: dict[str, int] = {}
        self._gate = FleetGate(clock)
        self._refusals: queue.Queue[MessageRefusal] = queue.Queue()
        self._flows = FlowTable()
        context = ChannelContext(clock, self._gate, self._refusals.put, self._flows)
        channels = load_channels(settings.channel_classes(), settings.channel_settings(), context)
        self._courier = ChannelCourier(channels, clock, ClockLoop(clock), self._gate, self._flows)
        self._engine_settings = engine_settings(self.id, settings, self._courier)
        self._connect()
        self._build_engine()
        self._build_actors()
        self._jobs.rebuilder.check_home()
        self._jobs.rebuilder.announce_claims()

    # ------------------------------------------------------------- construction
    def _connect(self) -> None:
        pulsar = self._settings.pulsar
        self._redis = open_redis(self._settings, self._claim_max_ms, self._calls.note)
        self._pulsar = open_pulsar(pulsar)
        self._lanes_client = pulsar_client.connect(pulsar)
        self._dead_letters = DeadLetterTopic(self._pulsar.client, self._pulsar.topics)
        create = partial(create_missing_lane, self._pulsar.admin, self._redis.registry)
        self._publisher = LanePublisher(self._pulsar.client, self._clock, create=create)
        self._feed = Feed(self._redis.view)

    @property
    def _claim_max_ms(self) -> int:
        return max(CLAIM_MAX_MS, self._engine_settings.claim_ms)

    def _build_engine(self) -> None:
        self._inbox = inbox = EngineInbox()
        self._lanes = PulsarLanes(
            self._lanes_client,
            lambda lane: inbox.put(LaneReady(lane)),
            self._dead_letters,
            self._clock,
            LaneSettings(PrefetchSettings(budget_targets=self._settings.worker.buffer_targets)),
            MissingChannels(
                channels=self._courier.channels,
                ended=self._redis.registry.tasks.ends,
                move=self._move_aside,
                elsewhere=lambda name: any(name in (peer.channels or ()) for peer in self._heartbeat.peers()),
            ),
        )
        self._leases = LeaseThread(self._redis.ledger)
        self._engine = Engine(
            self._engine_settings,
            EnginePorts(
                lanes=self._lanes,
                courier=self._courier,
                leases=self._leases,
                outcomes=self._pulsar.outcomes,
                publisher=self._publisher,
                dead_letters=self._dead_letters,
                topics=self._pulsar.topics,
                allot=self._gate.allot,
                is_reopened=self._gate.is_reopened,
            ),
            self._clock,
            inbox,
        )

    def _move_aside(self, envelope: Envelope, done: Done) -> None:
        lane = self._pulsar.topics.side_lane(envelope.app, envelope.channel)
        self._publisher.publish(lane, [envelope], done)

    def _build_actors(self) -> None:
        redis, clock, stats = self._redis, self._clock, self._engine.stats
        self._metrics = self._serve_metrics()
        self._sends = SendNotes(self._engine.errors, stats, redis.ledger.note_sends, clock)
        self._heartbeat = Heartbeat(
            redis.workers,
            self._identity(),
            stats,
            lambda: self.state,
            clock,
            store_counts=self._store_figures,
            newer_lanes=self._lanes.newer_lanes,
        )
        self._jobs = SharedJobs(
            redis,
            self._pulsar,
            self.id,
            clock,
            self._heartbeat.alive_workers,
            self._claim_max_ms,
            self._settings.worker.snapshot_every_s,
        )
        self._watcher = LaneWatcher(
            redis.registry,
            self._feed,
            self._pulsar.topics,
            self._inbox.put,
            self._heartbeat.peers,
            clock,
            WatchSettings(lanes=self._lane_settings()),
            self._gate.update,
        )
        self._pauses = FlowPauses(
            redis.registry.service,
            redis.registry.control,
            self._pulsar.control,
            clock,
            self._gate.outbox,
            redis.ledger.slow_flow,
        )
        self._stops = TaskStops(
            redis.registry.tasks, redis.registry.control, self._pulsar.control, clock, self._refusals
        )
        self._form = FormWatch(redis.epochs)
        self._watchdog = Watchdog(
            self._signs,
            self._threads.fail,
            watchdog_settings(self._settings, self._courier.timeouts_s, _LEASE_MS / 1000),
        )

    def _identity(self) -> WorkerIdentity:
        return WorkerIdentity(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            metrics_port=self._metrics.port if self._metrics else 0,
            tiers=self._settings.worker.tiers,
            channels=self._courier.channels,
        )

    def _signs(self) -> Signs:
        """Return the progress of each part, for the watchdog."""
        return {
            **self._threads.checks(),
            "main": self._turns if self.state == "serving" else None,
            "channels": self._courier.probe(),
            "lane-attacher": self._lanes.opening(),
            "lane-returner": self._lanes.returning(),
            **{channel_part(name): batch for name, batch in self._courier.oldest().items()},
        }

    def _store_figures(self) -> None:
        """Store the figures. Raises FairlaneError; figures not stored are stored the next time."""
        self._sends.store()
        self._note_letters()

    def _note_letters(self) -> None:
        """Store where tasks have dead letters, and count those that `doctor` names.

        Raises Unreachable; it is then done the next time.
        """
        self._dead_letters.index(LetterIndex(self._redis.view).add)
        for name, letters in self._dead_letters.counts().items():
            new = letters - self._letters_counted.get(name, 0)
            if new:
                self._redis.view.count(name, new)
                self._letters_counted[name] = letters

    def _lane_settings(self) -> LiveLaneSettings:
        worker = self._settings.worker
        return LiveLaneSettings(me=self.id, tiers=worker.tiers, rotation=RotationSettings(max_lanes=worker.max_lanes))

    def _serve_metrics(self) -> MetricsServer | None:
        build = {"version": __version__, "tenant": self._settings.pulsar.tenant}
        return serve_metrics(
            self._settings.worker,
            EngineCollector(self._engine.stats, self._calls, build),
            FlowCollector(self._flows.flows, self._gate.doors),
            ServiceCollector(ServiceView(self._redis.registry, self._redis.epochs, self._redis.workers, self._clock)),
        )

    # ------------------------------------------------------------- life
    def run(self, stop: threading.Event) -> int:
        """Serve until `stop` is set or a part fails, then drain and close. Return the exit code."""
        self._courier.start(self._threads.start)
        self._start_threads()
        self.state = "serving"
        _log.info("worker %s serves (metrics on port %s)", self.id, self._metrics.port if self._metrics else "-")
        while not (stop.is_set() or self._over.is_set() or self._form.closed.is_set()):
            self._turns += 1
            stop.wait(0.2)
        drained = self._drain()
        if isinstance(self._threads.failure, Hung):
            # Threads that still run release their locks; the end of the process closes connections.
            self._threads.join(_LEAVE_S)
            return Hung.exit_code
        exit_within(_END_WITHIN_S, Hung.exit_code)
        self._close()
        if self._threads.failure is not None:
            return 1
        if self._form.closed.is_set():
            return self._form.exit_code
        _log.info(
            "worker %s has left%s", self.id, "" if drained else " before all was settled; claims end by themselves"
        )
        return 0

    def _start_threads(self) -> None:
        threads = self._threads
        threads.start("heartbeat", self._heartbeat.run)
        self._jobs.start(threads)
        threads.start("lease", self._leases.run)
        threads.start("lane-publisher", self._publisher.run)
        threads.start("view-form", self._form.run)
        threads.start("engine", self._run_engine)
        threads.start("watch", self._watcher.run)
        threads.start("flow-pauses", self._pauses.run)
        threads.start("task-stops", self._stops.run)
        threads.start("watchdog", self._watchdog.run)

    def _run_engine(self, stop: threading.Event) -> None:
        try:
            self._engine.run(stop)
        finally:
            self._over.set()

    def _drain(self) -> bool:
        """Stop sending, and settle what is in progress.

        Everything else continues meanwhile: the fold may be on this worker.
        """
        if self._threads.failure is not None:
            return False
        self.state = "draining"
        within_s = self._settings.worker.drain_timeout_s
        _log.info("worker %s drains for at most %g s", self.id, within_s)
        self._inbox.put(Drain(within_s))
        self._over.wait(within_s + CLOSE_S)
        return self._engine.drained

    def _close(self) -> None:
        """Close the parts, each before those that it uses."""
        self._courier.stop(CLOSE_S)
        self._lanes.stop(CLOSE_S)
        self._publisher.stop(CLOSE_S)
        self._leases.wake()
        late = self._threads.join(CLOSE_S)
        if late:
            _log.warning("threads that did not stop in time: %s", ", ".join(late))
        self.state = "stopped"
        self._dead_letters.close(CLOSE_S)
        self._pulsar.close(CLOSE_S)
        pulsar_client.close(self._lanes_client)
        self._feed.close()
        self._redis.view.close()
        if self._metrics:
            self._metrics.close()
