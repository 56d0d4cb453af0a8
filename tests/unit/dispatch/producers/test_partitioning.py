"""Which tasks get a lane with partitions, how many, and what their producers need."""

from typing import Any

import msgspec
import pytest

from backends.settings import ProducerOptions
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from dispatcher.scheduling.read_ahead import receiver_queue
from dispatcher.wire.control import TaskRecord, decode_control, encode_control
from dispatcher.wire.topics import Topics, lane_of_topic, topics_of_lane
from producers.publish.tuning import need_of, partitions_for, tune
from producers.submit.acceptance import accept

MILLION = 1_000_000
OPTIONS = ProducerOptions()


def record_of(expected: int | None, **fields: Any) -> TaskRecord:
    given: dict[str, Any] = {"app": "shop", "tier": "medium", "channel": "log", "message": "Hi"}
    task = PushTask(**(given | fields))
    return accept(task, "t", expected, 0, Topics())


@pytest.mark.parametrize(
    ("expected", "partitions"),
    [(None, 0), (1, 0), (MILLION, 0), (MILLION + 1, 2), (5 * MILLION, 2), (7 * MILLION, 3), (300 * MILLION, 12)],
)
def test_a_million_targets_and_more_get_partitions(expected: int | None, partitions: int) -> None:
    assert partitions_for(expected, 1_000, OPTIONS) == partitions


def test_there_are_no_more_than_the_memory_gives_a_thousand_messages_each() -> None:
    assert partitions_for(300 * MILLION, 35_000, OPTIONS) == 3
    assert partitions_for(300 * MILLION, 35_000, ProducerOptions(memory_mib=512)) == 12
    assert partitions_for(300 * MILLION, 4 * MILLION, OPTIONS) == 2


def test_partitions_can_be_switched_off() -> None:
    assert partitions_for(300 * MILLION, 1_000, ProducerOptions(partition_above=0)) == 0


def test_a_task_in_a_shared_lane_has_none() -> None:
    task, options = PushTask(app="a", tier="low", channel="log", message="Hi"), ProducerOptions(partition_above=10)
    assert accept(task, "t", 4_000, 0, Topics(), options).partitions == 0
    assert accept(task, "t", 6_000, 0, Topics(), options).partitions == 2


def test_records_of_before_are_read_as_without_partitions() -> None:
    stored = msgspec.msgpack.decode(encode_control(record_of(3 * MILLION)))
    place = 1 + TaskRecord.__struct_fields__.index("partitions")  # the tag is first
    assert stored[place] == 2
    del stored[place:]
    old = decode_control(msgspec.msgpack.encode(stored))
    assert isinstance(old, TaskRecord)
    assert old.partitions == 0


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("expected", [None, 100, 10_000, MILLION, 3 * MILLION, 10 * MILLION, 200 * MILLION])
def test_producers_of_submissions_are_tuned_within_all_bounds(tier: Tier, expected: int | None) -> None:
    record = record_of(expected, tier=tier)
    tuning = tune(need_of(record, OPTIONS))
    assert 1_000 <= tuning.settings.pending_messages <= 2_000
    assert tuning.settings.memory_bytes <= OPTIONS.memory_bytes
    assert tuning.settings.batch_messages <= receiver_queue(record.chunk) / 4
    assert not tuning.remarks


def test_a_memory_that_became_smaller_since_the_record_still_serves() -> None:
    record = msgspec.structs.replace(record_of(None, chunk=500), partitions=256)
    assert tune(need_of(record, ProducerOptions(memory_mib=16))).settings.pending_messages >= 2


def test_a_lane_and_its_partitions_name_each_other() -> None:
    lane = Topics().own_lane("t")
    assert topics_of_lane(lane, 0) == [lane]
    assert [lane_of_topic(topic) for topic in topics_of_lane(lane, 12)] == [lane] * 12
    assert lane_of_topic(lane) == lane
