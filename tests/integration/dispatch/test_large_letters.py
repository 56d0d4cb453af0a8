"""Dead letters larger than a broker takes: stored in parts, and in nobody's way."""

import random
from pathlib import Path

import pulsar

from backends.pulsar.dead_letter_reader import read_dead_letters
from backends.pulsar.dead_letter_topic import DeadLetterTopic
from backends.pulsar.record_producer import RecordProducer
from backends.redis.view import WITHOUT_TASK
from backends.system_clock import SystemClock
from consumers.lanes.pulsar_lanes import PulsarLanes
from dispatcher.model.errors import InvalidInput
from dispatcher.ports import DeadLetter, Delivery, Done
from dispatcher.wire.envelope import encode_envelope
from dispatcher.wire.letters import MAX_LETTER_BYTES
from dispatcher.wire.outcome import MAX_REASON_BYTES
from dispatcher.wire.topics import Topics
from fairlane import PushClient, PushTask, Settings
from fairlane.checks.doctor import examine
from tests.integration.lane_helpers import Dock, envelope, publish
from tests.integration.pulsar_helpers import DEADLINE_S, Answers, Tenant, eventually, stored_in
from tests.integration.worker_crew import audience, crew
from tests.records import dead_letter

NOISE = random.Random(5).randbytes(6_000_000)
"""It does not shrink by compression."""
LARGE = 5 * 1024 * 1024 - 10_000
"""Just below what the broker takes."""
FAULTY = """
from dispatcher.wire.outcome import RETRY, Report, Verdict

class Loud:
    timeout_s, concurrency, batch_limit = 5.0, 4, 1
    def __init__(self, settings): self.name = settings["name"]
    async def open(self): ...
    async def close(self): ...
    async def deliver(self, envelopes, tier):
        if envelopes[0].app == "loud":
            raise ValueError("\\u00e9" * 80_000)
        return [Report(Verdict(2, b"no \\xff")) for one in envelopes]
"""


def send(client: pulsar.Client, lane: str, *bodies: bytes) -> None:
    producer = client.create_producer(lane)
    for body in bodies:
        producer.send(body)
    producer.close()


def test_a_record_that_is_too_large_fails_alone_and_others_are_stored(client: pulsar.Client, names: Topics) -> None:
    producer, answers = RecordProducer(client, names.dead_letters), Answers()
    for body in (b"before", NOISE, b"behind"):
        producer.publish(body, answers)
    errors = answers.wait(3)
    assert [type(error) for error in errors if error is not None] == [InvalidInput]
    assert stored_in(client, names.dead_letters) == [b"before", b"behind"]
    assert producer.close()


def test_a_letter_of_long_reasons_is_stored_and_keeps_no_other_waiting(client: pulsar.Client, names: Topics) -> None:
    topic, done = DeadLetterTopic(client, names), Answers()
    targets = [f"{n:03d}" + "\U0001f600" * 1_000 for n in range(500)]
    large = dead_letter("t", targets, reasons=["é" * 80_000] * 500)
    other = dead_letter("other", ["a"])
    for letter in (large, other):
        topic.publish(letter, done)
    assert done.wait(2) == [None, None]
    assert list(read_dead_letters(client, names, "other")) == [other]
    found = list(read_dead_letters(client, names, "t"))
    assert [target for letter in found for target in letter.targets] == targets
    assert {len(reason.encode()) for letter in found for reason in letter.reasons} == {MAX_REASON_BYTES}
    assert topic.close()


def test_a_message_of_5_mib_that_is_no_envelope_leaves_its_lane_whole_and_alone(tenant: Tenant, lane: str) -> None:
    garbage = NOISE[:LARGE]
    send(tenant.client, lane, garbage, encode_envelope(envelope(0)))
    dock, topic = Dock(tenant.client), DeadLetterTopic(tenant.client, tenant.names)
    dock.lanes = PulsarLanes(tenant.client, dock.ready.put, topic, SystemClock())
    dock.attach(lane)
    dock.lanes.ack(lane, dock.take(1))

    def acked() -> bool:
        dock.drained(lane)
        return tenant.admin.backlog(lane) == 0

    eventually(acked, "both are acknowledged")
    parts = list(read_dead_letters(tenant.client, tenant.names, ""))
    assert b"".join(part.body for part in sorted(parts, key=lambda part: part.part)) == garbage
    assert {(part.lane, part.parts) for part in parts} == {(lane, len(parts))}
    assert max(len(part.body) for part in parts) <= MAX_LETTER_BYTES
    assert topic.counts() == {WITHOUT_TASK + lane: 1}
    dock.lanes.stop(5.0)
    assert topic.close()


def test_few_messages_that_are_no_envelopes_are_in_memory_at_once(client: pulsar.Client, lane: str) -> None:
    class Slow:
        """Letters whose receipts come when they are asked for."""

        def __init__(self) -> None:
            self.waiting: list[Done] = []
            self.stored = 0

        def publish(self, letter: DeadLetter, done: Done) -> None:
            self.waiting.append(done)

        def confirm(self) -> None:
            waiting, self.waiting = self.waiting, []
            self.stored += len(waiting)
            for done in waiting:
                done(None)

    letters, dock = Slow(), Dock(client)
    dock.lanes = PulsarLanes(client, dock.ready.put, letters, SystemClock())
    publish(client, lane, [b"garbage"] * 300 + [encode_envelope(envelope(0))])
    dock.attach(lane)
    most, found = 0, list[Delivery]()
    while not found:
        found = dock.drained(dock.ready.get(timeout=DEADLINE_S))
        most = max(most, len(letters.waiting))
        if not found and dock.ready.empty():
            letters.confirm()
    letters.confirm()
    assert letters.stored == 300
    assert most < 20
    dock.lanes.stop(5.0)


def test_texts_of_80_kb_end_their_task_and_no_other_and_doctor_names_the_lane_of_garbage(
    fresh_settings: Settings, client: pulsar.Client, names: Topics, tmp_path: Path
) -> None:
    (tmp_path / "loud.py").write_text(FAULTY)
    config = '[worker.channels]\nloud = "loud:Loud"\n'
    tasks = {
        app: PushTask(app=app, tier="high", channel="loud", message="hi", chunk=500, max_attempts=1)
        for app in ("loud", "quiet")
    }
    with crew(fresh_settings, tmp_path, "w1", config=config), PushClient.connect(fresh_settings) as door:
        send(client, names.shared_lane(0), b"garbage", NOISE[:LARGE])
        handles = {app: door.submit(task, audience(1_000, app)) for app, task in tasks.items()}
        for handle in handles.values():
            assert handle.wait(30).targets.failed == 1_000
        reasons = {app: {failure.reason for failure in handle.failures()} for app, handle in handles.items()}
        assert reasons["quiet"] == {"no \ufffd"}
        (long,) = reasons["loud"]
        assert long.startswith("gave up after 1 attempt; the last: ValueError: ééé")
        assert len(long.encode()) <= MAX_REASON_BYTES
        assert sum(1 for _ in handles["loud"].failures()) == 1_000

        def named() -> bool:
            found = [finding.what for finding in examine(fresh_settings, SystemClock())]
            return any("2 dead letters without a task" in what and names.shared_lane(0) in what for what in found)

        eventually(named, "doctor names the lane")
