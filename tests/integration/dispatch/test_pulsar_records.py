"""Control, outcome and dead-letter topics: positions, readers that go on exactly where they were, records not lost."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.dead_letter_reader import LetterTopic, read_dead_letters
from backends.pulsar.dead_letter_topic import DeadLetterTopic
from backends.pulsar.record_producer import RecordProducer
from backends.pulsar.record_topics import ControlTopic, OutcomeTopic
from backends.redis.skipped_records import SkippedRecords
from backends.system_clock import SystemClock
from consumers.upkeep.folder import recheck
from dispatcher.model.errors import NotFound, Unreachable
from dispatcher.ports import DeadLetter, StoredRecord
from dispatcher.wire.control import GlobalChange, decode_control
from dispatcher.wire.outcome import EpochMark, Outcomes, decode_record
from dispatcher.wire.topics import Topics
from tests.contract import ledger_worlds
from tests.contract.ledger_worlds import run
from tests.integration.pulsar_helpers import Answers, Tenant, read_all, stored_in
from tests.integration.worker_crew import eventually
from tests.records import dead_letter
from tests.unit.views import view_of
from tests.virtual_clock import VirtualClock


def change(number: int) -> GlobalChange:
    return GlobalChange(1, "capacity", str(number), 0)


# ---------------------------------------------------------------- control
def test_positions_are_told_in_topic_order_and_read_again(client: pulsar.Client, names: Topics) -> None:
    control = ControlTopic(client, names)
    positions = [control.append(change(0)), *control.append_many([change(n) for n in range(1, 250)])]
    assert positions == sorted(set(positions))
    found = read_all(control.reader())
    assert [record.position for record in found] == positions
    assert [decode_control(record.body) for record in found] == [change(n) for n in range(250)]


def test_a_reader_begins_exactly_behind_its_position_wherever_that_is_in_a_batch(tenant: Tenant) -> None:
    control = ControlTopic(tenant.client, tenant.names)
    positions = control.append_many([change(n) for n in range(130)])
    tenant.admin.unload(tenant.names.control)  # another ledger
    positions += control.append_many([change(n) for n in range(130, 260)])
    edges = [0, 98, 99, 100, 128, 129, 130, 131, 229, 258, 259]
    for index in [*edges, *random.Random(4).sample(range(260), 10)]:
        found = read_all(control.reader(positions[index]))
        assert [record.position for record in found] == positions[index + 1 :], index


def test_a_record_is_found_again_by_its_position_wherever_that_is_in_a_batch(tenant: Tenant) -> None:
    control, view, found = ControlTopic(tenant.client, tenant.names), view_of(VirtualClock()), list[StoredRecord]()
    positions = control.append_many([change(n) for n in range(130)])
    tenant.admin.unload(tenant.names.control)  # another ledger
    positions += [control.append(change(130)), *control.append_many([change(n) for n in range(131, 200)])]
    wanted = [0, 1, 2, 99, 100, 129, 130, 131, 132, 199]
    SkippedRecords(view, "1").keep("control", {positions[index]: "" for index in wanted})
    recheck(SkippedRecords(view, "2"), "control", control.reader, found.extend)
    assert [decode_control(record.body) for record in found] == [change(index) for index in wanted]


def test_a_reader_neither_loses_nor_repeats_when_its_topic_moves(tenant: Tenant) -> None:
    control = ControlTopic(tenant.client, tenant.names)
    positions = control.append_many([change(n) for n in range(250)])
    reader = control.reader()
    found: list[StoredRecord] = []
    while len(found) < 110:
        assert not reader.at_end()
        found += reader.read(110 - len(found), 20.0)
    tenant.admin.unload(tenant.names.control)
    positions.append(control.append(change(250)))
    found += read_all(reader, limit=7)
    assert [record.position for record in found] == positions


def test_appends_of_many_threads_are_all_stored_and_each_is_told_its_own_position(tenant: Tenant) -> None:
    control = ControlTopic(tenant.client, tenant.names)
    with ThreadPoolExecutor(16) as pool:
        reported = list(pool.map(lambda n: (control.append(change(n)), change(n)), range(400)))
    found = {record.position: decode_control(record.body) for record in read_all(control.reader())}
    assert found == dict(reported)


def test_an_append_that_cannot_be_stored_raises_and_the_next_one_works(tenant: Tenant) -> None:
    control = ControlTopic(tenant.client, tenant.names, timeout_s=5.0)
    control.append(change(0))
    tenant.admin.delete_topic(tenant.names.control, force=True)
    with pytest.raises(Unreachable):
        control.append(change(1))
    tenant.admin.create_topic(tenant.names.control)
    control.append(change(2))
    found = [decode_control(record.body) for record in read_all(control.reader())]
    assert found == [change(2)]  # and the one that was given up does not come later


def test_a_reader_waits_for_what_comes(client: pulsar.Client, names: Topics) -> None:
    control = ControlTopic(client, names)
    reader = control.reader()
    assert reader.at_end()
    assert reader.read(10, 0.05) == []
    found: list[StoredRecord] = []
    waiting = threading.Thread(target=lambda: found.extend(reader.read(10, 20.0)))
    waiting.start()
    position = control.append(change(1))
    waiting.join(20.0)
    assert [record.position for record in found] == [position]


def test_nothing_is_opened_on_topics_that_were_not_provisioned(client: pulsar.Client) -> None:
    elsewhere = Topics("no-such-tenant")
    for build in (ControlTopic, OutcomeTopic, DeadLetterTopic):
        with pytest.raises(NotFound, match="fairlane provision"):
            build(client, elsewhere)


# ---------------------------------------------------------------- outcomes
def outcomes(task: str, number: int) -> Outcomes:
    return ledger_worlds.outcomes(task, run(number, 1), claim=f"w.{number}")


def test_a_tasks_records_are_in_its_partition_in_order(client: pulsar.Client, names: Topics) -> None:
    topic, done = OutcomeTopic(client, names), Answers()
    tasks = [f"task-{n}" for n in range(8)]
    for number in range(50):
        for task in tasks:
            topic.publish(task, outcomes(task, number), done)
    position = topic.append(1, EpochMark(1, "e"))
    assert done.wait(400) == [None] * 400
    read = {partition: read_all(topic.reader(partition)) for partition in range(names.outcome_partitions)}
    assert read[1][-1].position == position
    for task in tasks:
        records = [decode_record(record.body) for record in read[names.partition_of(task)]]
        mine = [record for record in records if isinstance(record, Outcomes) and record.task == task]
        assert mine == [outcomes(task, number) for number in range(50)]
    assert topic.close()


def test_a_record_is_kept_until_its_topic_can_be_written_again(tenant: Tenant) -> None:
    producer, stored = RecordProducer(tenant.client, tenant.names.outcomes(0)), Answers()
    tenant.admin.delete_topic(tenant.names.outcomes(0), force=True)
    for number in range(20):
        producer.publish(b"%d" % number, stored)
    assert not stored.errors
    tenant.admin.create_topic(tenant.names.outcomes(0))
    for number in range(20, 40):
        producer.publish(b"%d" % number, stored)
    assert stored.wait(40) == [None] * 40
    found = stored_in(tenant.client, tenant.names.outcomes(0))
    assert list(dict.fromkeys(found)) == [b"%d" % number for number in range(40)]


def test_a_broken_producer_is_replaced_and_publishes_again_what_has_no_receipt(
    client: pulsar.Client, names: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[pulsar.Producer] = []
    create = client.create_producer

    def kept(*args: Any, **named: Any) -> pulsar.Producer:
        made.append(create(*args, **named))
        return made[-1]

    monkeypatch.setattr(client, "create_producer", kept)
    producer, stored = RecordProducer(client, names.outcomes(0)), Answers()
    for number in range(300):
        producer.publish(b"%d" % number, stored)
        if number == 150:
            made[0].close()  # as the client does when a broker fences it off
    assert stored.wait(300) == [None] * 300
    found = stored_in(client, names.outcomes(0))
    assert set(found) == {b"%d" % number for number in range(300)}
    assert producer.close()


def test_closing_gives_up_what_cannot_be_stored(client: pulsar.Client, admin: PulsarAdmin, names: Topics) -> None:
    producer, stored = RecordProducer(client, names.outcomes(0)), Answers()
    admin.delete_topic(names.outcomes(0), force=True)
    producer.publish(b"lost", stored)
    with pytest.raises(Unreachable):
        producer.append(b"lost as well", 0.1)
    assert not producer.close(0.1)
    assert [type(error) for error in stored.wait(1)] == [Unreachable]
    producer.publish(b"too late", stored)
    assert len(stored.wait(2)) == 2


# ---------------------------------------------------------------- dead letters
def letter(task: str, sequence: int, positions: list[int], attempt: int = 0, body: bytes = b"") -> DeadLetter:
    targets = [f"target-{sequence}-{position}" for position in positions]
    return dead_letter(task, targets, sequence=sequence, positions=positions, attempt=attempt, body=body)


def test_dead_letters_are_listed_once_for_their_task(client: pulsar.Client, names: Topics) -> None:
    topic, done = DeadLetterTopic(client, names), Answers()
    letters = [
        letter("a", 0, [0, 1]),
        letter("b", 0, [0]),
        letter("a", 0, [1, 2], attempt=1),  # position 1 is a copy
        letter("a", 1, [0]),
        letter("a", 1, [0]),  # a copy
        letter("a", 7, [], body=b"an envelope"),
        letter("a", 7, [], body=b"an envelope"),
    ]
    for one in letters:
        topic.publish(one, done)
    assert done.wait(7) == [None] * 7
    listed = list(read_dead_letters(client, names, "a"))
    assert listed == [letters[0], letter("a", 0, [2], attempt=1), letters[3], letters[5]]
    assert list(read_dead_letters(client, names, "nobody")) == []
    assert topic.close()


def test_dead_letters_of_a_time_are_read_again_from_the_first(
    client: pulsar.Client, names: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second reading begins where the first one found them, and finds those that came meanwhile."""
    for name, value in (("CLOCKS_MS", 0), ("_SAME_MS", 1)):
        monkeypatch.setattr(f"backends.pulsar.dead_letter_reader.{name}", value)
    topic, done, clock = DeadLetterTopic(client, names), Answers(), SystemClock()
    listed = LetterTopic(client, names)
    assert list(listed.letters(clock.wall_ms())) == []
    letters = [letter("a", number, [0]) for number in range(4)]
    topic.publish(letters[0], done)
    assert done.wait(1) == [None]
    since_ms = clock.wall_ms() + 1
    eventually(lambda: clock.wall_ms() > since_ms, 5, "a later time")
    for number in (1, 2, 3):
        topic.publish(letters[number], done)
        assert done.wait(number + 1)[number:] == [None]
        assert list(listed.letters(since_ms)) == letters[1 : number + 1]
        assert list(listed.letters(since_ms - 60_000)) == letters[: number + 1]
    assert topic.close()
