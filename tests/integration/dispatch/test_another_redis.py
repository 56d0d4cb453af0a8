"""Workers with the same Pulsar and another Redis: they grant nothing beside those that serve, until the view moves."""

import subprocess
from pathlib import Path

import pytest

from benchmarks import redis_server
from fairlane import PushClient, Settings
from fairlane.checks.view_checks import view_findings
from fairlane.errors import Refused
from fairlane.worker.rebuild_by_hand import rebuild
from tests.integration.worker_crew import audience, crew, eventually, on_redis, push


@pytest.mark.timeout(300)
def test_a_worker_with_another_redis_is_refused_until_the_view_is_adopted_there(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    with redis_server.running() as first, redis_server.running() as second:
        here, there = (on_redis(fresh_settings, server.url) for server in (first, second))
        with crew(here, tmp_path / "here", "w1") as members, PushClient.connect(here) as client:
            client.set_capacity(2_000)
            going = client.submit(push(), audience(20_000, "g"))
            eventually(lambda: going.progress().targets.sent > 1_000, 60, "it is in full swing")
            found_wrong(there, (first.port, second.port))
            refused(there, tmp_path / "there")
            found_wrong(there, (first.port, second.port))
            members.check_sent_once(going, audience(20_000, "g"), 60)

            assert rebuild(there, lambda _: None, 120, wipe=True, adopt=True).ready
            eventually(lambda: members.members["w1"].poll() is not None, 60, "the worker on the other Redis leaves")
            assert members.members["w1"].returncode == Refused.exit_code
            assert "this worker stops: The view of this installation is in another Redis" in members.log_of("w1")
        with crew(there, tmp_path / "moved", "w2") as members, PushClient.connect(there) as client:
            assert client.task(going.id).progress().targets.sent == 20_000
            after = client.submit(push(), audience(500, "h"))
            assert after.wait(60).targets.sent == 500


def found_wrong(settings: Settings, ports: tuple[int, int]) -> None:
    """Submit, steer and examine with another Redis, which is empty unless a worker was started with it."""
    (finding,) = view_findings(settings)
    assert finding.level == "fail"
    with PushClient.connect(settings) as wrong:
        for use in (lambda: wrong.submit(push(), ["a"]), lambda: wrong.set_capacity(1)):
            with pytest.raises(Refused, match="another Redis") as refused:
                use()
            assert all(str(port) in text for port in ports for text in (refused.value.cause, finding.what))


def refused(settings: Settings, folder: Path) -> None:
    """Start a worker, which learns from the control topic that it must leave, and another that knows it at once."""
    with crew(settings, folder) as members:
        for name in ("first", "second"):
            members.join(name)
            try:
                assert members.members[name].wait(60) == Refused.exit_code
            except subprocess.TimeoutExpired as error:
                raise AssertionError(members.log_of(name)) from error
            assert "fairlane registry adopt" in members.log_of(name)
