"""A worker beside those of an older version, and records that make no sense, on real servers."""

import threading
from pathlib import Path

import pytest

from backends.redis.epochs import Epochs
from backends.redis.skipped_records import CONTROL, SkippedRecords
from backends.redis.view import RedisView, open_view
from backends.redis.workers import Workers
from dispatcher.model.errors import NotReady, Refused
from dispatcher.model.view_form import FORM
from dispatcher.wire.control import ControlChange, GlobalChange
from fairlane import PushClient, Settings
from fairlane.worker.connections import open_pulsar, opened_servers
from fairlane.worker.rebuild_by_hand import rebuild
from fairlane.worker.shared_jobs import snapshot_topics
from tests.actors import running
from tests.integration.worker_crew import audience, crew, eventually, push
from tests.records import beat

NONSENSE = [
    ControlChange(1, "none", "override", "without a number", 0),
    ControlChange(1, "none", "tier", "urgent", 0),
    GlobalChange(1, "capacity", "1" * 30, 0),
]


def write_nonsense(settings: Settings) -> None:
    pulsar = open_pulsar(settings.pulsar)
    pulsar.control.append_many(NONSENSE)  # type: ignore[arg-type]
    pulsar.close(5.0)


def a_refused_rebuild_keeps_the_snapshots(settings: Settings) -> None:
    with opened_servers(settings) as (_, pulsar):
        snapshots = snapshot_topics(pulsar)
        snapshots.write("1", [])
        with pytest.raises(Refused, match="cannot be rebuilt now: workers of an older version serve the view"):
            rebuild(settings, lambda _: None, 10, wipe=True, full=True)
        assert snapshots.numbers() == ["1"]
        snapshots.delete("1")


def older_worker(view: RedisView) -> object:
    def run(stop: threading.Event) -> None:
        while not stop.wait(0.3):
            Workers(view).beat(beat("old", "serving", form=FORM - 1))
        Workers(view).beat(beat("old", "stopped"))

    return run


def states(view: RedisView) -> set[str]:
    return {beat.state for beat in Workers(view).workers() if beat.id != "old" and beat.state != "stopped"}


def test_a_worker_stands_by_until_older_ones_are_gone_and_then_makes_the_view_again(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    write_nonsense(fresh_settings)
    view = open_view(fresh_settings.redis)
    Epochs(view).begin_epoch("e", 0, fresh_settings.pulsar.outcome_partitions)
    view.command("HSET", view.keys.epoch, "form", FORM - 1)
    with crew(fresh_settings, tmp_path) as members, PushClient.connect(fresh_settings) as client:
        with running(older_worker(view)):  # type: ignore[arg-type]
            eventually(Workers(view).workers, 10, "the older worker beats")
            members.join("new")
            eventually(lambda: states(view) == {"standby"}, 30, "the new worker is in standby")
            with pytest.raises(NotReady, match=f"has form {FORM - 1}"):
                client.submit(push(), audience(10))
            assert "workers of an older version serve the view: stop old (0.1.0)" in members.log_of("new")
            assert Epochs(view).form() == FORM - 1
            a_refused_rebuild_keeps_the_snapshots(fresh_settings)
        members.await_serving("new")
        assert Epochs(view).form() == FORM
        assert client.submit(push(), audience(10)).wait(timeout_s=60).targets.sent == 10
        assert len(SkippedRecords(view).kept(CONTROL)) == len(NONSENSE)

        view.command("HSET", view.keys.epoch, "form", FORM + 1)
        assert members.members["new"].wait(30) == NotReady.exit_code
        assert f"has form {FORM + 1}, this version needs {FORM}: upgrade this worker" in members.log_of("new")
    view.close()
