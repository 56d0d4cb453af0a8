"""Lanes for submissions: created by REST, then filled through a tuned producer for each partition."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pulsar

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.publisher import LaneProducer, LaneProducerSettings
from backends.settings import Compression, ProducerOptions
from dispatcher.wire.control import TaskRecord
from dispatcher.wire.envelope import MAX_ENVELOPE_BYTES
from dispatcher.wire.topics import topics_of_lane
from producers.ports import LaneWriter
from producers.publish.router import Router, RouterSettings
from producers.publish.tuning import ProducerSettings, need_of, tune

_CREATED_AT_ONCE = 8
"""The number of lanes created at once. A broker of two cores creates 37 lanes a second one by one, 157 with 8 at once,
160 with 16 at once."""


class SubmissionLanes:
    """Implements LaneOpener."""

    def __init__(self, client: pulsar.Client, admin: PulsarAdmin, options: ProducerOptions) -> None:
        self._client = client
        self._admin = admin
        self._options = options
        self._creating = threading.BoundedSemaphore(_CREATED_AT_ONCE)

    def create(self, topic: str, partitions: int) -> None:
        with self._creating:
            self._admin.create_lane(topic, partitions)

    def open(self, record: TaskRecord) -> LaneWriter:
        options, settings = self._options, tune(need_of(record, self._options)).settings
        topics = topics_of_lane(record.lane, record.partitions)
        producers = open_producers(self._client, topics, settings, options.compression)
        rules = RouterSettings(when_full=options.when_full, note_stall_s=options.note_stall_s, task=record.task)
        return Router(producers, settings, rules, time.monotonic)


def open_producers(
    client: pulsar.Client, topics: Sequence[str], settings: ProducerSettings, compression: Compression = "lz4"
) -> list[LaneProducer]:
    """Open one producer for each topic, all together. Raises as LaneProducer."""
    made = lane_settings(settings, compression)
    if len(topics) == 1:
        return [LaneProducer(client, topics[0], made)]
    with ThreadPoolExecutor(len(topics), thread_name_prefix="producers") as pool, ExitStack() as undo:
        opening = [pool.submit(LaneProducer, client, topic, made) for topic in topics]
        opened = [undo.enter_context(closing(each.result())) for each in opening]
        undo.pop_all()
    return opened


def lane_settings(settings: ProducerSettings, compression: Compression) -> LaneProducerSettings:
    """Return the settings of a lane's producers. Their own bounds are above the router's, so that they never wait."""
    return LaneProducerSettings(
        batch_messages=settings.batch_messages,
        batch_bytes=settings.batch_bytes,
        batch_delay_ms=settings.batch_delay_ms,
        in_flight_messages=2 * settings.pending_messages,
        in_flight_bytes=2 * (settings.partition_bytes + MAX_ENVELOPE_BYTES),
        compression=compression,
    )
