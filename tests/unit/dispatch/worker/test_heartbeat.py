"""Which workers there are, as each of them sees it in the heartbeats."""

from collections.abc import Sequence
from typing import Any

import pytest

from backends.redis.workers import Workers
from dispatcher.clock import ServiceClock
from dispatcher.engine.stats import EngineStats
from dispatcher.model.tier import Tier
from dispatcher.model.view import WorkerBeat
from fairlane.checks.view_checks import newer_findings
from fairlane.worker.live_lanes import Peer
from fairlane.worker.report.heartbeat import Heartbeat, WorkerIdentity
from tests.actors import Waits
from tests.records import beat
from tests.unit.views import LostRedis, view_of
from tests.virtual_clock import VirtualClock


class Redis(LostRedis):
    """The server, and what the workers store there."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock.wall_ms)
        self.clock = clock
        self.workers = Workers(view_of(self))

    def seen(self, worker: str) -> WorkerBeat:
        """Return the last heartbeat of a worker."""
        return next(beat for beat in self.workers.workers() if beat.id == worker)


@pytest.fixture
def redis() -> Redis:
    return Redis(VirtualClock())


def heart(
    redis: Redis,
    name: str = "a",
    version: str = "1",
    stats: EngineStats | None = None,
    lanes: Sequence[str] = (),
    **is_: Any,
) -> Heartbeat:
    """Return the heartbeat of a serving worker."""
    identity = WorkerIdentity(id=name, host="h", pid=1, version=version, **is_)
    clock, counted = ServiceClock(redis.clock), stats or EngineStats()
    return Heartbeat(redis.workers, identity, counted, lambda: "serving", clock, newer_lanes=lambda: lanes)


def test_workers_are_not_taken_for_lost_because_redis_was(redis: Redis) -> None:
    """When it is back the first to beat is the only one that is seen."""
    mine = heart(redis)
    seen: list[set[str]] = []

    def second(number: int) -> None:
        """The other worker beats after this one."""
        if not redis.gone:
            redis.workers.beat(beat("b"))
        redis.gone = 10 <= number < 40
        seen.append({peer.id for peer in mine.peers()})

    mine.run(Waits(redis.clock, 60, second))
    assert seen[0] == {"a"}
    assert all(peers == {"a", "b"} for peers in seen[5:])


def test_lanes_left_to_newer_workers_are_told_to_peers_and_by_doctor(redis: Redis) -> None:
    lanes = [f"lane-{number:03d}" for number in range(60)]
    mine, peer = (heart(redis, name, "0.2.0", lanes=lanes) for name in "ab")
    peer.beat("serving")
    mine.run(Waits(redis.clock, 1))
    mine.beat("serving")
    assert [peer.newer for peer in mine.peers()] == [tuple(lanes[:50])] * 2
    (finding,) = newer_findings(redis.workers.workers())
    assert finding.what.startswith("50 lanes hold envelopes of a later version (lane-000, lane-001, ")
    assert "b (0.2.0)" in finding.what
    assert "a (0.2.0)" in finding.what


def test_a_worker_announces_its_channels_and_of_an_old_one_they_are_not_known(redis: Redis) -> None:
    mine = heart(redis, channels=frozenset({"null", "http"}))
    redis.workers.beat(beat("b", version="0.2.0"))
    redis.workers.beat(beat("c", extra={"channels": ["x"]}))
    mine.run(Waits(redis.clock, 1))
    assert {peer.id: peer.channels for peer in mine.peers()} == {"a": {"http", "null"}, "b": None, "c": {"x"}}
    assert redis.seen("a").channels == frozenset({"http", "null"})


def test_a_worker_that_is_gone_is_seen_to_be(redis: Redis) -> None:
    mine = heart(redis)
    seen: list[set[str]] = []

    def second(number: int) -> None:
        if number < 10:
            redis.workers.beat(beat("b"))
        seen.append({peer.id for peer in mine.peers()})

    mine.run(Waits(redis.clock, 20, second))
    assert seen[8] == {"a", "b"}
    assert seen[-1] == {"a"}
    assert mine.alive_workers() == 1


def test_a_workers_rate_is_over_three_seconds_however_its_envelopes_fall(redis: Redis) -> None:
    """100 targets at a time, twice a second at most: the estimates made of it jumped between 3 h and 7 h."""
    stats = EngineStats()
    mine = heart(redis, stats=stats)
    rates: list[float] = []

    def second(number: int) -> None:
        rates.append(redis.seen("a").rate)
        stats.tiers[Tier.LOW].sent += 300 if number % 3 == 0 else 0

    mine.run(Waits(redis.clock, 30, second))
    assert set(rates[6:]) == {100.0}


def test_a_key_of_another_type_ends_no_worker(redis: Redis, caplog: pytest.LogCaptureFixture) -> None:
    mine, view = heart(redis), view_of(redis)
    view.command("SET", view.keys.workers, "foreign")
    mine.run(Waits(redis.clock, 3))
    assert "the heartbeat cannot be stored: Redis" in caplog.text
    view.command("DEL", view.keys.workers)
    mine.beat("serving")
    assert redis.seen("a").state == "serving"


def test_what_a_newer_version_reports_in_another_form_ends_no_worker(redis: Redis) -> None:
    mine = heart(redis)
    redis.workers.beat(beat("b", extra={"holds": 3, "newer": {"lane": 1}, "channels": "null"}))
    redis.workers.beat(beat("c", extra={"holds": [["high"]], "newer": [["lane"], 5]}))
    mine.run(Waits(redis.clock, 1))
    by_id = {peer.id: peer for peer in mine.peers()}
    assert len({*mine.peers()}) == 3  # each can be compared
    assert by_id["b"] == Peer("b")
    assert list(newer_findings(redis.workers.workers()))
