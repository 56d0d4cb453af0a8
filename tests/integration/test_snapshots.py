"""Redis is emptied in mid-run and filled from a snapshot: nothing is lost or sent twice, and progress is right."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest
import redis

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import close, connect, topics
from backends.pulsar.snapshot_topics import SnapshotTopics
from benchmarks import redis_server
from benchmarks.redis_server import RedisServer
from dispatcher.wire.snapshot import FORMAT, Begun, Chunk, Cursors, Packer, TaskPart, check, parts_of, records_of
from fairlane import PushClient, Settings
from fairlane.cli import main
from tests.integration.worker_crew import Crew, audience, crew, eventually, let_commands_use, on_redis, push

OFTEN = "[worker]\nsnapshot_every_s = 1\n"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server.running() as server:
        yield server


@pytest.fixture
def settings(server: RedisServer, fresh_settings: Settings) -> Settings:
    return on_redis(fresh_settings, server.url)


@contextmanager
def shelf_of(settings: Settings) -> Iterator[SnapshotTopics]:
    client, admin = connect(settings.pulsar), PulsarAdmin(settings.pulsar)
    yield SnapshotTopics(client, admin, topics(settings.pulsar))
    admin.close()
    close(client)


def empty(server: RedisServer) -> None:
    with redis.Redis(port=server.port, protocol=2) as client:
        client.flushall()


def logged(members: Crew, words: str) -> bool:
    return any(words in members.log_of(name) for name in members.members)


@pytest.mark.timeout(240)
def test_an_emptied_redis_is_filled_from_the_newest_whole_snapshot(
    settings: Settings, server: RedisServer, tmp_path: Path
) -> None:
    with (
        crew(settings, tmp_path, "w1", "w2", config=OFTEN) as members,
        PushClient.connect(settings) as client,
        shelf_of(settings) as shelf,
    ):
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
        eventually(lambda: logged(members, f"snapshot {shelf.numbers()[0]}: "), 60, "a snapshot is whole")
        shelf.write("9" * 16, [Begun(FORMAT, 0, Cursors("", ["", ""]))])  # half of one
        empty(server)
        members.await_view()
        assert client.globals().capacity == 400
        client.set_capacity(0)
        after = going.wait(120)
        assert (after.state, after.targets.sent, after.targets.total) == ("completed", 8_000, 8_000)
        assert members.targets(going.id) == Counter(audience(8_000, "g"))
        assert logged(members, f"snapshot {'9' * 16} is skipped")
        assert logged(members, "the view begins with snapshot ")
        assert (done.progress().state, done.progress().targets) == ("completed", done_view.targets)
        assert paused.progress().state == "paused"
        paused.resume()
        assert paused.wait(60).targets.sent == 1_000
        delivered = members.targets(paused.id)
        assert delivered == Counter(audience(1_000, "p"))
        assert len(shelf.numbers()) <= 4


@pytest.mark.timeout(240)
def test_without_a_readable_snapshot_everything_is_read(
    settings: Settings, server: RedisServer, tmp_path: Path
) -> None:
    with (
        crew(settings, tmp_path, "w1", config="[worker]\nsnapshot_every_s = 0\n") as members,
        PushClient.connect(settings) as client,
        shelf_of(settings) as shelf,
    ):
        client.set_capacity(200)
        going = client.submit(push(), audience(4_000, "g"))
        eventually(lambda: going.progress().targets.sent > 500, 60, "it is in full swing")
        packer = Packer(1)
        list(packer.add([TaskPart(going.id, -1, [b"lane", b"nonsense"])]))  # its chunk is lost
        shelf.write("9" * 16, [Begun(FORMAT, 0, Cursors("", ["", ""])), *packer.end()])
        empty(server)
        members.await_view()
        client.set_capacity(0)
        assert going.wait(120).targets.sent == 4_000
        assert members.targets(going.id) == Counter(audience(4_000, "g"))
        assert logged(members, "none of 1 snapshots can be used")


@pytest.mark.timeout(240)
def test_by_hand_a_snapshot_is_stored_and_the_view_filled_with_and_without(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    let_commands_use(settings, monkeypatch)
    with crew(settings, tmp_path, "w1"), PushClient.connect(settings) as client:
        handle = client.submit(push(), audience(300))
        before = handle.wait(60)
        assert main.run(["registry", "snapshot", "-o", "json"]) == 0
        number = json.loads(capsys.readouterr().out)["snapshot"]
    with PushClient.connect(settings) as client, shelf_of(settings) as shelf:
        for options, numbers in ((["--wipe"], [number]), (["--wipe", "--full"], [])):
            assert main.run(["registry", "rebuild", *options, "-o", "json"]) == 0
            assert json.loads(capsys.readouterr().out)["complete"] is True
            assert shelf.numbers() == numbers
            after = client.task(handle.id).progress()
            assert (after.state, after.targets) == (before.state, before.targets)


def test_a_large_snapshot_is_stored_and_read_in_order(settings: Settings) -> None:
    parts = [TaskPart(f"t{number}", -1, [b"lane", b"x" * 10_000]) for number in range(5_000)]
    begun = Begun(FORMAT, 1, Cursors("c", ["", ""]))
    with shelf_of(settings) as shelf:
        packer = Packer(1 << 19)
        shelf.write("1", chain([begun], packer.add(parts), packer.end()))
        reader = shelf.reader("1")
        bodies: list[bytes] = []
        while not reader.at_end():
            bodies += [stored.body for stored in reader.read(16, 5.0)]
        reader.close()
        records = list(records_of(bodies))
        assert check(records, 2) == begun
        assert [part for r in records if isinstance(r, Chunk) for part in parts_of(r)] == parts
        shelf.delete("1")
        assert shelf.numbers() == []
