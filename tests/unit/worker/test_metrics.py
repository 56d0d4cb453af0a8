"""Metrics say what the engine counted, in few series."""

import socket

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from backends.redis.epochs import Epochs
from backends.redis.registry.task_rows import LiveTask
from dispatcher.clock import VirtualClock
from dispatcher.engine.stats import EngineStats
from dispatcher.model.errors import FairlaneError, InvalidInput, NotReady, Unreachable
from dispatcher.model.tier import Tier
from dispatcher.model.view import TierStats, WorkerBeat
from fairlane.worker.report.call_times import CallTimes
from fairlane.worker.report.metrics import EngineCollector, MetricsServer, ServiceCollector
from fairlane.worker.report.service_view import ServiceView
from tests.unit.tasks import live_task as live
from tests.unit.views import FixedRegistry, FixedService, FixedTasks, FixedWorkers


def exposed(*collectors: EngineCollector | ServiceCollector) -> str:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry).decode()


def test_targets_waits_and_calls_are_shown() -> None:
    stats, calls = EngineStats(), CallTimes()
    stats.outcomes[(Tier.HIGH, "http", 0)] += 7
    stats.tiers[Tier.LOW].wait.add(3.0, 2)
    stats.tiers[Tier.LOW].wait.add(10**9)
    calls.note("lease", 0.0004)
    calls.note("lease", 7.0)
    text = exposed(EngineCollector(stats, calls, "9.9"))
    assert 'fairlane_targets_total{channel="http",outcome="sent",tier="high"} 7.0' in text
    assert 'fairlane_queue_wait_seconds_bucket{le="0.002",tier="low"} 0.0' in text
    assert 'fairlane_queue_wait_seconds_bucket{le="0.005",tier="low"} 2.0' in text
    assert 'fairlane_queue_wait_seconds_count{tier="low"} 3.0' in text
    assert 'fairlane_redis_call_seconds_bucket{le="0.0005",script="lease"} 1.0' in text
    assert 'fairlane_redis_call_seconds_bucket{le="+Inf",script="lease"} 2.0' in text
    assert 'fairlane_build_info{version="9.9"} 1.0' in text


class Counts(Epochs):
    """trouble: raised when the counts are to be checked."""

    trouble: FairlaneError | None = None

    def __init__(self) -> None: ...

    def check_counts(self) -> None:
        if self.trouble is not None:
            raise self.trouble


class OneWorker:
    """A service with one worker, which sends `rate` targets/s of high and of low."""

    def __init__(self, rate: float, *tasks: LiveTask) -> None:
        self.clock = VirtualClock()
        self.counts = Counts()
        self.workers = FixedWorkers()
        self.sends(rate)
        registry = FixedRegistry(FixedTasks(*tasks), FixedService(100))
        self.view = ServiceView(registry, self.counts, self.workers, self.clock)

    def sends(self, rate: float) -> None:
        tiers = {"high": TierStats(rate=rate), "low": TierStats(rate=rate)}
        self.workers.beats = [
            WorkerBeat(
                id="w",
                host="h",
                pid=1,
                state="serving",
                started_ms=0,
                seen_ms=0,
                version="0",
                lanes=0,
                in_flight=0,
                buffered=0,
                rate=0.0,
                tiers=tiers,
            )
        ]


def test_signals_of_the_service_are_shown_and_kept_for_a_moment() -> None:
    tasks = live("a", total=1_000), live("b", tier="low", total=500), live("c", state="paused", total=9)
    world = OneWorker(20.0, *tasks)
    text = exposed(ServiceCollector(world.view))
    assert 'fairlane_backlog_targets{tier="high"} 1000.0' in text
    assert 'fairlane_backlog_targets{tier="medium"} 0.0' in text
    assert 'fairlane_drain_seconds{tier="high"} 50.0' in text
    assert 'fairlane_drain_seconds{tier="medium"} 0.0' in text
    assert 'fairlane_share_actual_ratio{tier="low"} 0.5' in text
    assert "fairlane_workers 1.0" in text
    assert "fairlane_workers_needed 2.0" in text
    world.sends(40.0)
    assert world.view.signals().of("high").drain_s == 50
    world.clock.advance(2)
    assert world.view.signals().of("high").drain_s == 25


@pytest.mark.parametrize("trouble", [Unreachable("Redis is gone."), NotReady("The view is being rebuilt.")])
def test_without_a_view_an_autoscaler_is_told_nothing_rather_than_too_little(trouble: FairlaneError) -> None:
    world = OneWorker(0.0, live("a", total=1_000))
    world.counts.trouble = trouble
    text = exposed(ServiceCollector(world.view), EngineCollector(EngineStats(), CallTimes(), "1"))
    assert "fairlane_backlog_targets" not in text
    assert "fairlane_worker_lanes 0.0" in text, "the worker's own figures are still shown"
    world.counts.trouble = None
    assert 'fairlane_backlog_targets{tier="high"} 1000.0' in exposed(ServiceCollector(world.view))


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"cannot be served on 127.0.0.1:{port}: Address already in use"):
            MetricsServer(port, "127.0.0.1", ())
