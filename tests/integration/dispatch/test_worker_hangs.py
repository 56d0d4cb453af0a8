"""A part of a worker ends or hangs: the worker ends, and a healthy one beside it finishes the task."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import redis_server
from fairlane import PushClient, Settings
from fairlane.cli.base import exit_codes
from producers.handle import TaskHandle
from tests.integration import bad_channels
from tests.integration.worker_crew import Crew, audience, crew, eventually, on_redis, push

TARGETS = 8_000
CONFIG = """
[redis]
connect_timeout_s = 1
socket_timeout_s = 1
[channels.x]
path = {path}
"""
HANGS = {
    "BlocksTheLoop": "A batch of the channel x has had no report",
    "IgnoresCancelling": "A batch of the channel x has had no report",
    "HangsTheMainThread": "The thread 'main' has made no progress",
    "HangsTheEngine": "The thread 'engine' has made no progress",
    "HangsTheLedger": "The thread 'lease' has made no progress",
}


@contextmanager
def pair(settings: Settings, folder: Path, first: str) -> Iterator[Crew]:
    """w1 with this channel of bad_channels, and w2, not there yet, with a good one."""
    shutil.copy(bad_channels.__file__, folder)
    with crew(settings, folder, config=CONFIG.format(path=json.dumps(str(folder / "delivered.jsonl")))) as both:
        join(both, "w1", first)
        yield both


def join(both: Crew, name: str, channel: str) -> None:
    both.join(name, "--channel", f"x=bad_channels:{channel}")
    both.await_serving(name)


def submit(client: PushClient) -> TaskHandle:
    """A task that is under way, at a rate that leaves most of it for later."""
    client.set_capacity(200)
    handle = client.submit(push(channel="x"), audience(TARGETS))
    eventually(lambda: handle.progress().targets.sent > 100, 30, "it is under way")
    return handle


def finish_beside(both: Crew, client: PushClient) -> int:
    """Send a task that breaks w1, and see it finished; return how w1 ended."""
    handle = submit(client)
    join(both, "w2", "Logs")
    (both.folder / "break").touch()
    eventually((both.folder / "held.json").exists, 30, "w1 breaks")
    client.set_capacity(0)
    code = both.members["w1"].wait(60)
    view = handle.wait(60)
    assert (view.state, view.targets.sent, view.targets.total) == ("completed", TARGETS, TARGETS)
    delivered = both.targets(handle.id)
    assert set(delivered) == set(audience(TARGETS))
    held = json.loads((both.folder / "held.json").read_text())
    assert sum(delivered.values()) - TARGETS <= held
    eventually(
        lambda: [beat.id[:2] for beat in client.workers() if beat.state == "serving"] == ["w2"], 70, "w1 is gone"
    )
    return code


@pytest.mark.timeout(240)
@pytest.mark.parametrize("channel", HANGS)
def test_a_worker_of_which_a_part_hangs_ends_itself_and_another_finishes_the_task(
    fresh_settings: Settings, tmp_path: Path, channel: str
) -> None:
    with pair(fresh_settings, tmp_path, channel) as both, PushClient.connect(fresh_settings) as client:
        code = finish_beside(both, client)
        log = both.log_of("w1")
    # Without its main thread a worker ends after 10 s; here the guardian is quicker.
    assert code == exit_codes.HUNG or (channel == "HangsTheMainThread" and code == -signal.SIGABRT)
    assert HANGS[channel] in log
    assert f"in {'break_it' if channel == 'BlocksTheLoop' else 'hang'}" in log or channel == "IgnoresCancelling"


@pytest.mark.timeout(240)
def test_a_channel_that_exits_ends_its_worker_and_another_finishes_the_task(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    with pair(fresh_settings, tmp_path, "Exits") as both, PushClient.connect(fresh_settings) as client:
        assert finish_beside(both, client) == exit_codes.FAILURE
        assert "The channel x raised SystemExit" in both.log_of("w1")


@pytest.mark.timeout(240)
def test_a_call_that_keeps_the_interpreter_to_itself_ends_its_worker_and_another_finishes_the_task(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    with pair(fresh_settings, tmp_path, "HoldsTheInterpreter") as both, PushClient.connect(fresh_settings) as client:
        assert finish_beside(both, client) == -signal.SIGABRT
        log = both.log_of("w1")
    assert "has made no progress for 4 s: ending it." in log
    assert "in break_it" in log


@pytest.mark.timeout(240)
def test_a_redis_that_does_not_answer_is_no_hang(fresh_settings: Settings, tmp_path: Path) -> None:
    """For twice as long as a call to the ledger may take."""
    with redis_server.running() as server:
        settings = on_redis(fresh_settings, server.url)
        with pair(settings, tmp_path, "Logs") as both, PushClient.connect(settings) as client:
            handle = submit(client)
            server.process.send_signal(signal.SIGSTOP)
            lives_on(both, "w1", 16)
            server.process.send_signal(signal.SIGCONT)
            client.set_capacity(0)
            both.check_sent_once(handle, audience(TARGETS), 90)
            assert both.leave("w1") == 0


@pytest.mark.timeout(240)
def test_a_worker_that_was_stopped_for_longer_than_any_part_may_take_goes_on_when_it_wakes(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    with pair(fresh_settings, tmp_path, "Logs") as both, PushClient.connect(fresh_settings) as client:
        handle = submit(client)
        join(both, "w2", "Logs")
        both.members["w1"].send_signal(signal.SIGSTOP)
        lives_on(both, "w1", 16)
        both.members["w1"].send_signal(signal.SIGCONT)
        lives_on(both, "w1", 8)
        client.set_capacity(0)
        assert handle.wait(60).targets.sent == TARGETS
        assert both.leave("w1") == 0


def lives_on(both: Crew, name: str, seconds: float) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        both.members[name].wait(seconds)
