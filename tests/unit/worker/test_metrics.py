"""Metrics say what the engine counted, in few series."""

from prometheus_client import CollectorRegistry, generate_latest

from backends.task_rows import LiveTask
from dispatcher.clock import VirtualClock
from dispatcher.engine_stats import EngineStats
from dispatcher.errors import NotReady, Unreachable
from dispatcher.tier import DEFAULT_TIER_WEIGHTS, Tier
from dispatcher.view import Globals, TierStats, WorkerBeat
from fairlane.worker.call_times import CallTimes
from fairlane.worker.metrics import EngineCollector, ServiceCollector
from fairlane.worker.service_view import ServiceView


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


def live(task: str, **fields: object) -> LiveTask:
    plain = LiveTask(
        id=task, state="running", app="a", tier="high", weight=1000, cap=0, channel="null", lane=f"lane/{task}",
        shared=False, chunk=100, hold=False, start_ms=0, expires_ms=0, sealed=True, published=10, total=10, finals=0,
        claims=0, cancelled=False,
    )  # fmt: skip
    return plain._replace(**fields)  # type: ignore[arg-type]


class World:
    def __init__(self) -> None:
        self.tasks: list[LiveTask] = []
        self.rate = 0.0
        self.gone = False
        self.rebuilding = False

    def check_counts(self) -> None:
        if self.rebuilding:
            raise NotReady("The view is being rebuilt.")

    def live(self) -> list[LiveTask]:
        if self.gone:
            raise Unreachable("Redis is gone.")
        return self.tasks

    def globals(self) -> Globals:
        return Globals(100, {str(tier): weight for tier, weight in DEFAULT_TIER_WEIGHTS.items()})

    def workers(self) -> list[WorkerBeat]:
        tiers = {"high": TierStats(rate=self.rate), "low": TierStats(rate=self.rate)}
        return [WorkerBeat("w", "h", 1, "serving", 0, 0, "0", 0, 0, 0, 0.0, tiers)]


def test_signals_of_the_service_are_shown_and_kept_for_a_moment() -> None:
    world, clock = World(), VirtualClock()
    world.tasks = [live("a", total=1_000), live("b", tier="low", total=500), live("c", state="paused", total=9)]
    world.rate = 20.0
    service = ServiceView(world, world, world, clock)
    text = exposed(ServiceCollector(service))
    assert 'fairlane_backlog_targets{tier="high"} 1000.0' in text
    assert 'fairlane_backlog_targets{tier="medium"} 0.0' in text
    assert 'fairlane_drain_seconds{tier="high"} 50.0' in text
    assert 'fairlane_drain_seconds{tier="medium"} 0.0' in text
    assert 'fairlane_share_actual_ratio{tier="low"} 0.5' in text
    assert "fairlane_workers 1.0" in text
    assert "fairlane_workers_needed 2.0" in text
    world.rate = 40.0
    assert service.signals().of("high").drain_s == 50
    clock.advance(2)
    assert service.signals().of("high").drain_s == 25


def test_without_redis_the_workers_own_figures_are_still_shown() -> None:
    world = World()
    world.gone = True
    service = ServiceCollector(ServiceView(world, world, world, VirtualClock()))
    text = exposed(service, EngineCollector(EngineStats(), CallTimes(), "1"))
    assert "fairlane_worker_lanes 0.0" in text
    assert "fairlane_backlog_targets" not in text


def test_while_the_view_is_rebuilt_an_autoscaler_is_told_nothing_rather_than_too_little() -> None:
    world = World()
    world.tasks, world.rebuilding = [live("a", total=1_000)], True
    service = ServiceCollector(ServiceView(world, world, world, VirtualClock()))
    assert "fairlane_backlog_targets" not in exposed(service)
    world.rebuilding = False
    assert 'fairlane_backlog_targets{tier="high"} 1000.0' in exposed(service)
