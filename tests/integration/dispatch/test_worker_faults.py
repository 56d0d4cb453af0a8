"""Failures while workers send: nothing is lost, nothing is counted twice, and work goes on by itself."""

from collections import Counter
from pathlib import Path

import pulsar
import pytest

from backends.pulsar.record_topics import SnapshotTopics
from backends.redis.view import open_view
from dispatcher.wire.outcome import Outcomes, decode_record
from dispatcher.wire.snapshot import FORMAT, Begun, Cursors, Packer, TaskPart
from dispatcher.wire.topics import Topics
from fairlane import PushClient, Settings
from tests.integration.pulsar_helpers import stored_in
from tests.integration.worker_crew import audience, crew, eventually, push


def recorded_by(worker: str, task: str, client: pulsar.Client, names: Topics) -> set[int]:
    """Sequences of the task's envelopes that have an outcome record of this worker."""
    found: set[int] = set()
    for record in map(decode_record, stored_in(client, names.outcomes(names.partition_of(task)))):
        if isinstance(record, Outcomes) and record.task == task and record.claim.startswith(f"{worker}-"):
            found.update(n for run in record.runs for n in range(run.first, run.first + run.count))
    return found


@pytest.mark.timeout(240)
def test_a_killed_worker_costs_time_only(
    fresh_settings: Settings, client: pulsar.Client, names: Topics, tmp_path: Path
) -> None:
    with crew(fresh_settings, tmp_path, "w1", "w2") as members, PushClient.connect(fresh_settings) as door:
        door.set_capacity(2_000)
        handle = door.submit(push(), audience(20_000))
        eventually(lambda: handle.progress().targets.sent > 4_000, 30, "it is in full swing")
        members.kill("w1")
        before = {line["sequence"] for line in members.lines()}
        view = handle.wait(90)
        assert (view.state, view.targets.sent, view.targets.total) == ("completed", 20_000, 20_000)
        assert set(members.targets(handle.id)) == set(audience(20_000))
        calls = Counter(line["sequence"] for line in members.lines())
        twice = {sequence for sequence, count in calls.items() if count > 1}
        assert max(calls.values()) <= 2
        assert twice <= before, "what was first sent after the kill is sent once"
        recorded = recorded_by("w1", handle.id, client, names)
        assert recorded, "it was in full swing"
        assert not twice & recorded, "only what it had sent and not recorded is sent again"


@pytest.mark.timeout(240)
def test_an_emptied_redis_is_rebuilt_and_nothing_is_sent_twice(
    fresh_settings: Settings, shelf: SnapshotTopics, tmp_path: Path
) -> None:
    """From the beginning of the topics, since the only snapshot lacks its chunk."""
    with (
        crew(fresh_settings, tmp_path, "w1", "w2", config="[worker]\nsnapshot_every_s = 0\n") as members,
        PushClient.connect(fresh_settings) as client,
    ):
        client.set_capacity(100)
        running = client.submit(push(), audience(8_000, "r"))
        paused = client.submit(push(), audience(2_000, "p"))
        cancelled = client.submit(push(), audience(2_000, "c"))
        paused.pause()
        cancelled.cancel()
        client.set_capacity(1_000)
        cancelled_view = cancelled.wait(30)
        eventually(lambda: running.progress().targets.sent > 3_000, 30, "it is in full swing")
        packer = Packer(1)
        list(packer.add([TaskPart(running.id, -1, [b"lane", b"nonsense"])]))
        shelf.write("9" * 16, [Begun(FORMAT, 0, Cursors("", ["", ""])), *packer.end()])
        view = open_view(fresh_settings.redis)
        view.wipe()
        members.check_sent_once(running, audience(8_000, "r"), 120)
        members.await_view()
        assert members.logged("none of 1 snapshots can be used")
        assert client.globals().capacity == 1_000
        assert paused.progress().state == "paused"
        ended = cancelled.progress()
        assert (ended.state, ended.targets) == ("cancelled", cancelled_view.targets)
        assert sum(members.targets(cancelled.id).values()) == cancelled_view.targets.sent
        assert "repeats_possible" not in view.stats()
        view.close()
        paused.resume()
        members.check_sent_once(paused, audience(2_000, "p"), 60)
