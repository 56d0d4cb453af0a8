"""Redis is emptied in mid-run and filled from a snapshot: nothing is lost or sent twice, and progress is right."""

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest
import redis

from backends.pulsar.record_topics import SnapshotTopics
from benchmarks import redis_server
from benchmarks.redis_server import RedisServer
from dispatcher.wire.snapshot import FORMAT, Begun, Chunk, Cursors, Packer, TaskPart, check, parts_of, records_of
from fairlane import PushClient, Settings
from tests.integration.pulsar_helpers import read_all
from tests.integration.worker_crew import audience, crew, eventually, let_commands_use, on_redis, push
from tests.unit.command_line import CommandLine

OFTEN = "[worker]\nsnapshot_every_s = 1\n"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server.running() as server:
        yield server


@pytest.fixture
def settings(server: RedisServer, fresh_settings: Settings) -> Settings:
    return on_redis(fresh_settings, server.url)


def empty(server: RedisServer) -> None:
    with redis.Redis(port=server.port, protocol=2) as client:
        client.flushall()


@pytest.mark.timeout(240)
def test_an_emptied_redis_is_filled_from_the_newest_whole_snapshot(
    settings: Settings, server: RedisServer, shelf: SnapshotTopics, tmp_path: Path
) -> None:
    with crew(settings, tmp_path, "w1", "w2", config=OFTEN) as members, PushClient.connect(settings) as client:
        client.set_capacity(400)
        done = client.submit(push(tier="low"), audience(300, "d"))
        done_view = done.wait(60)
        client.set_capacity(10)
        paused = client.submit(push(), audience(1_000, "p"))
        paused.pause()
        client.set_capacity(400)
        going = client.submit(push(), audience(8_000, "g"))
        eventually(lambda: going.progress().targets.sent > 1_000, 60, "it is in full swing")
        known = shelf.numbers()[:1]
        eventually(lambda: shelf.numbers()[:1] != known, 60, "a snapshot of the middle of the run is begun")
        eventually(lambda: members.logged(f"snapshot {shelf.numbers()[0]}: "), 60, "a snapshot is whole")
        shelf.write("9" * 16, [Begun(FORMAT, 0, Cursors("", ["", ""]))])  # half of one
        empty(server)
        members.await_view()
        assert client.globals().capacity == 400
        client.set_capacity(0)
        members.check_sent_once(going, audience(8_000, "g"), 120)
        assert members.logged(f"snapshot {'9' * 16} is skipped")
        assert members.logged("the view begins with snapshot ")
        assert (done.progress().state, done.progress().targets) == ("completed", done_view.targets)
        assert paused.progress().state == "paused"
        paused.resume()
        members.check_sent_once(paused, audience(1_000, "p"), 60)
        assert len(shelf.numbers()) <= 4


@pytest.mark.timeout(240)
def test_by_hand_a_snapshot_is_stored_and_the_view_filled_with_and_without(
    settings: Settings, shelf: SnapshotTopics, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_commands_use(settings, monkeypatch)
    with crew(settings, tmp_path, "w1"), PushClient.connect(settings) as client:
        handle = client.submit(push(), audience(300))
        before = handle.wait(60)
        number = json.loads(cli(["registry", "snapshot", "-o", "json"]).out)["snapshot"]
    with PushClient.connect(settings) as client:
        for options, numbers in ((["--wipe"], [number]), (["--wipe", "--full"], [])):
            assert json.loads(cli(["registry", "rebuild", *options, "-o", "json"]).out)["complete"] is True
            assert shelf.numbers() == numbers
            after = client.task(handle.id).progress()
            assert (after.state, after.targets) == (before.state, before.targets)


def test_a_large_snapshot_is_stored_and_read_in_order(shelf: SnapshotTopics) -> None:
    parts = [TaskPart(f"t{number}", -1, [b"lane", b"x" * 10_000]) for number in range(5_000)]
    begun = Begun(FORMAT, 1, Cursors("c", ["", ""]))
    packer = Packer(1 << 19)
    shelf.write("1", chain([begun], packer.add(parts), packer.end()))
    with closing(shelf.reader("1")) as reader:
        records = list(records_of(stored.body for stored in read_all(reader, 16)))
    assert check(records, 2) == begun
    assert [part for r in records if isinstance(r, Chunk) for part in parts_of(r)] == parts
    shelf.delete("1")
    assert shelf.numbers() == []
