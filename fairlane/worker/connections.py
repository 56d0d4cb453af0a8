"""Every server a worker talks to, opened from the settings and closed in order."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from backends.pulsar import client as pulsar_client
from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.record_topics import ControlTopic, OutcomeTopic
from backends.redis.client import Observe
from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.skipped_records import SkippedRecords
from backends.redis.view import CLAIM_MAX_MS, RedisView, open_view
from backends.redis.view_records import ViewRecords
from backends.redis.workers import JobLocks, Workers
from backends.settings import PulsarSettings
from dispatcher.wire.topics import Topics
from fairlane import __version__
from fairlane.settings import Settings
from quotas.fold import RedisFold
from quotas.ledger import RedisLedger
from quotas.snapshots import RedisSnapshots

CLOSE_S = 5.0
"""How long a part may take to close."""


class RedisSide:
    """The whole view in Redis."""

    def __init__(self, view: RedisView, topics: Topics) -> None:
        self.view = view
        self.registry = Registry(view)
        self.records = ViewRecords(view)
        self.epochs = Epochs(view)
        self.job_locks = JobLocks(view)
        self.workers = Workers(view)
        self.ledger = RedisLedger(view, topics)
        self.fold = RedisFold(view, reader=__version__)
        self.snapshots = RedisSnapshots(view)
        self.skipped_records = SkippedRecords(view, __version__)

    def epoch_id(self) -> str | None:
        """Return the id of the present view's epoch, if there is a view. Raises Unreachable."""
        epoch = self.epochs.epoch()
        return None if epoch is None else epoch.id


def open_redis(settings: Settings, claim_max_ms: int = CLAIM_MAX_MS, observe: Observe | None = None) -> RedisSide:
    """Connect to Redis. Raises Unreachable."""
    view = open_view(settings.redis, claim_max_ms=claim_max_ms, observe=observe)
    view.ping()
    view.scripts.check()
    return RedisSide(view, pulsar_client.topics(settings.pulsar))


@dataclass(frozen=True)
class PulsarSide:
    """The topics, which hold the truth, and the administration."""

    topics: Topics
    client: Any
    control: ControlTopic
    outcomes: OutcomeTopic
    admin: PulsarAdmin

    def close(self, timeout_s: float) -> None:
        self.outcomes.close(timeout_s)
        self.control.close()
        pulsar_client.close(self.client)
        self.admin.close()


def open_pulsar(settings: PulsarSettings) -> PulsarSide:
    """Connect to Pulsar. Raises Unreachable, and NotFound if Pulsar is not provisioned."""
    topics = pulsar_client.topics(settings)
    client = pulsar_client.connect(settings)
    return PulsarSide(topics, client, ControlTopic(client, topics), OutcomeTopic(client, topics), PulsarAdmin(settings))


@contextmanager
def opened_servers(settings: Settings) -> Iterator[tuple[RedisSide, PulsarSide]]:
    """Connect to both. Raises Unreachable, and NotFound if Pulsar is not provisioned."""
    redis = open_redis(settings)
    with closing(redis.view):
        pulsar = open_pulsar(settings.pulsar)
        try:
            yield redis, pulsar
        finally:
            pulsar.close(CLOSE_S)
