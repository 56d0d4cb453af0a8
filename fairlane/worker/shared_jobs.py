"""The jobs that one worker does for all, wired: their locks, folds, rebuilder, finisher, housekeepers."""

import secrets
from collections.abc import Callable
from functools import partial

from backends.pulsar.record_topics import SnapshotTopics
from backends.redis.skipped_records import CONTROL as CONTROL_TOPIC
from consumers.upkeep.closing import Closing
from consumers.upkeep.finishing import Finisher
from consumers.upkeep.folder import ControlFolder, FoldSettings, OutcomeFolder
from consumers.upkeep.jobs import Chore, HeldJobs, Housekeeper
from consumers.upkeep.lane_cleanup import LaneCleaner, SideLaneCleaner
from consumers.upkeep.rebuild import Rebuilder, RebuildPorts, RebuildSettings, Restater
from consumers.upkeep.snapshots import Restorer, SnapshotSettings, Snapshotter
from dispatcher.clock import Clock
from fairlane.worker.connections import PulsarSide, RedisSide
from fairlane.worker.process.threads import Threads

CONTROL, REBUILD, HOUSEKEEPING, SNAPSHOT = "control", "rebuild", "housekeeping", "snapshot"
FINISHED_EVERY_S, SWEEP_EVERY_S, PRUNE_EVERY_S, RESTATE_EVERY_S = 5.0, 60.0, 60.0, 600.0
"""Intervals of four jobs, in this order.

Checks for complete tasks without a tombstone; sweeps of deleted claims; prunings; checks whether old records must be
republished.
"""
REST = 50.0
"""Checks of all live tasks use at most a fiftieth of Redis' time, however many tasks there are."""


def outcome_job(partition: int) -> str:
    return f"outcomes-{partition}"


def snapshotter(
    redis: RedisSide, pulsar: PulsarSide, held: Callable[[], bool], clock: Clock, every_s: float
) -> Snapshotter:
    settings = SnapshotSettings(partitions=pulsar.topics.outcome_partitions, every_s=every_s)
    return Snapshotter(
        redis.snapshots, snapshot_topics(pulsar), pulsar.control, redis.epochs.epoch, held, clock, settings
    )


def snapshot_topics(pulsar: PulsarSide) -> SnapshotTopics:
    return SnapshotTopics(pulsar.client, pulsar.admin, pulsar.topics)


class SharedJobs:
    """Runs the shared jobs.

    owner: this worker's id.
    workers: returns the number of workers.
    snapshot_every_s: 0 for none.
    """

    def __init__(
        self,
        redis: RedisSide,
        pulsar: PulsarSide,
        owner: str,
        clock: Clock,
        workers: Callable[[], int],
        claim_max_ms: int,
        snapshot_every_s: float = 0.0,
    ) -> None:
        topics = pulsar.topics
        partitions = range(topics.outcome_partitions)
        names = [REBUILD, CONTROL, HOUSEKEEPING, *map(outcome_job, partitions), SNAPSHOT]
        self.held_jobs = HeldJobs(redis.job_locks, names, owner, clock, workers)
        self.finisher = Finisher(redis.registry, redis.epochs.ready, pulsar.control, clock)
        self._folders = [self._outcome_folder(redis, pulsar, partition) for partition in partitions]
        self._control = ControlFolder(
            pulsar.control.reader,
            self._holds(CONTROL),
            self.finisher.take,
            FoldSettings(batch=1_000),  # most records of a gradual audience are passed by others of a large batch
            redis.skipped_records,
            redis.epoch_id,
            redis.registry.control,
        )
        self._snapshotter = snapshotter(redis, pulsar, self._holds(SNAPSHOT), clock, snapshot_every_s)
        self.rebuilder = Rebuilder(
            RebuildPorts(
                redis.epochs, pulsar.control, pulsar.outcomes, pulsar.control.reader, redis.registry.control.cursor
            ),
            self._holds(REBUILD),
            clock,
            partial(secrets.token_hex, 8),
            RebuildSettings(topics.outcome_partitions, claim_max_ms, address=redis.view.address),
            Restorer(redis.snapshots, snapshot_topics(pulsar), topics.outcome_partitions).restore,
        )
        held = self._holds(HOUSEKEEPING)
        closing = Closing(redis.ledger, pulsar.outcomes, topics.partition_of, clock, self.finisher.force_end)
        chores = Chore(closing.end_claims, begin=closing.begin), Chore(closing.close_tasks, rest=REST)
        self._closing = Housekeeper(chores, held, clock)
        self._housekeeper = Housekeeper(self._clearing_chores(redis, pulsar, clock), held, clock)

    def start(self, threads: Threads, *, housekeeping: bool = True) -> None:
        """Start each job in its own thread."""
        threads.start("job_locks", self.held_jobs.run)
        threads.start("rebuild", self.rebuilder.run)
        threads.start("fold-control", self._control.run)
        for partition, folder in enumerate(self._folders):
            threads.start(f"fold-{partition}", folder.run)
        if housekeeping:
            threads.start("finisher", self.finisher.run)
            threads.start("closing", self._closing.run)
            threads.start("housekeeping", self._housekeeper.run)
            threads.start("snapshots", self._snapshotter.run)

    def _holds(self, job: str) -> Callable[[], bool]:
        return partial(self.held_jobs.held, job)

    def _outcome_folder(self, redis: RedisSide, pulsar: PulsarSide, partition: int) -> OutcomeFolder:
        return OutcomeFolder(
            partial(pulsar.outcomes.reader, partition),
            self._holds(outcome_job(partition)),
            self.finisher.take,
            FoldSettings(),
            redis.skipped_records,
            partition,
            redis.fold,
        )

    def _clearing_chores(self, redis: RedisSide, pulsar: PulsarSide, clock: Clock) -> tuple[Chore, ...]:
        """Return the chores that send requests to Pulsar's administration, some of which are slow."""
        topics, registry = pulsar.topics, redis.registry
        lanes = LaneCleaner(
            pulsar.admin,
            registry.tasks,
            redis.epochs.ready,
            topics.task_namespaces(),
            clock,
            all_read=lambda: not redis.skipped_records.kept(CONTROL_TOPIC),
        )
        restater = Restater(redis.records, pulsar.control, redis.epochs.epoch, self.rebuilder.restate, clock)
        sides = SideLaneCleaner(pulsar.admin, registry.sides, redis.epochs.ready, topics.shared_namespace, clock)
        return (
            Chore(lanes.round, begin=lanes.begin),
            Chore(sides.round, begin=sides.begin),
            # Tasks whose worker saw the end, but died before it wrote the tombstone.
            Chore(lambda: self.finisher.take(list(registry.tasks.complete())), FINISHED_EVERY_S, REST),
            Chore(redis.ledger.claim_lost, SWEEP_EVERY_S, REST),
            Chore(registry.tasks.prune, PRUNE_EVERY_S),
            Chore(registry.service.forget_flows, PRUNE_EVERY_S),
            Chore(restater.round, RESTATE_EVERY_S),
        )
