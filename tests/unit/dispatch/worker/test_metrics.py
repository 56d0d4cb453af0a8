"""Metrics say what the engine counted, in few series."""

import socket

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from backends.redis.epochs import Epochs
from backends.redis.registry.task_rows import SILENT_MS, STUCK_MS, IdleTask, LiveTask
from consumers.delivery.flow_figures import MAX_FLOWS, FlowTable
from dispatcher.channels.guards.door import Doors
from dispatcher.engine.stats import EngineStats, LateRecords
from dispatcher.model.errors import FairlaneError, InvalidInput, NotReady, Unreachable
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.model.tier import Tier
from dispatcher.model.view import TierStats
from dispatcher.wire.lease import Pace
from fairlane.worker.report.metrics import CallTimes, EngineCollector, FlowCollector, MetricsServer, ServiceCollector
from fairlane.worker.report.service_view import ServiceView
from tests.records import beat
from tests.unit.tasks import live_task as live
from tests.unit.tasks import task_view
from tests.unit.views import FixedRegistry, FixedService, FixedTasks, FixedWorkers
from tests.virtual_clock import VirtualClock


def exposed(*collectors: Collector) -> str:
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
    text = exposed(EngineCollector(stats, calls, {"version": "9.9", "tenant": "push"}))
    assert 'fairlane_targets_total{channel="http",outcome="sent",tier="high"} 7.0' in text
    assert 'fairlane_queue_wait_seconds_bucket{le="0.002",tier="low"} 0.0' in text
    assert 'fairlane_queue_wait_seconds_bucket{le="0.005",tier="low"} 2.0' in text
    assert 'fairlane_queue_wait_seconds_count{tier="low"} 3.0' in text
    assert 'fairlane_redis_call_seconds_bucket{le="0.0005",script="lease"} 1.0' in text
    assert 'fairlane_redis_call_seconds_bucket{le="+Inf",script="lease"} 2.0' in text
    assert 'fairlane_build_info{tenant="push",version="9.9"} 1.0' in text


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
        self.service = FixedService(100)
        self.tasks = FixedTasks(*tasks)
        registry = FixedRegistry(self.tasks, self.service)
        self.view = ServiceView(registry, self.counts, self.workers, self.clock)

    def sends(self, rate: float) -> None:
        tiers = {"high": TierStats(rate=rate), "low": TierStats(rate=rate)}
        self.workers.beats = [beat(tiers=tiers)]


def test_paused_apps_are_shown_by_channel_and_kind() -> None:
    world = OneWorker(20.0)
    world.service.flows = {
        "fcm/shop": FlowPause(kind=PauseKind.CREDENTIALS, since_ms=0, reason="wrong key"),
        "apns/shop": FlowPause(kind=PauseKind.DOWN, since_ms=0, until_ms=1),
    }
    world.service.time_ms = 5
    text = exposed(ServiceCollector(world.view))
    assert 'fairlane_flow_paused{app="shop",channel="fcm",kind="credentials"} 1.0' in text
    assert "apns" not in text


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


def test_tasks_that_cannot_end_are_counted_once_a_minute() -> None:
    world = OneWorker(20.0)
    stuck, busy, lacking = (
        IdleTask(task_view(name, 5), idle_ms) for name, idle_ms in (("a", STUCK_MS), ("b", 0), ("c", 0))
    )
    world.tasks.idle = [stuck, busy._replace(silent_ms=SILENT_MS), lacking._replace(lacking="main:7:0")]
    assert "fairlane_stuck_tasks 2.0" in exposed(ServiceCollector(world.view))
    assert "fairlane_silent_tasks 1.0" in exposed(ServiceCollector(world.view))
    world.tasks.idle = []
    world.clock.advance(59)
    assert "fairlane_stuck_tasks 2.0" in exposed(ServiceCollector(world.view))
    world.clock.advance(1)
    assert "fairlane_stuck_tasks 0.0" in exposed(ServiceCollector(world.view))


def test_targets_whose_outcome_is_late_are_shown() -> None:
    stats = EngineStats()
    assert "fairlane_worker_unrecorded_targets 0.0" in exposed(EngineCollector(stats, CallTimes(), {}))
    stats.late_records = LateRecords(since_s=1.0, targets=700, tasks=["a"])
    assert "fairlane_worker_unrecorded_targets 700.0" in exposed(EngineCollector(stats, CallTimes(), {}))


@pytest.mark.parametrize("trouble", [Unreachable("Redis is gone."), NotReady("The view is being rebuilt.")])
def test_without_a_view_an_autoscaler_is_told_nothing_rather_than_too_little(trouble: FairlaneError) -> None:
    world = OneWorker(0.0, live("a", total=1_000))
    world.counts.trouble = trouble
    text = exposed(ServiceCollector(world.view), EngineCollector(EngineStats(), CallTimes(), {}))
    assert "fairlane_backlog_targets" not in text
    assert "fairlane_worker_lanes 0.0" in text, "the worker's own figures are still shown"
    world.counts.trouble = None
    assert 'fairlane_backlog_targets{tier="high"} 1000.0' in exposed(ServiceCollector(world.view))


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"cannot be served on 127.0.0.1:{port}: Address already in use"):
            MetricsServer(port, "127.0.0.1", ())


def test_a_host_that_is_none_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"cannot be served on x\.\.y:0: this is no host name"):
        MetricsServer(0, "x..y", ())


def test_flows_are_shown_with_their_requests_answers_times_and_limits() -> None:
    table = FlowTable()
    flow = table.of("fcm", "shop", 1_000)
    for verdict, took_s in (("sent", 0.02), ("sent", 0.3), ("dead", 0.02)):
        flow.begin()
        flow.answers[verdict] += 1
        flow.end(took_s, 1.0)
    flow.begin()
    text = exposed(FlowCollector(table.flows, dict))
    of_flow = 'app="shop",channel="fcm"'
    assert f"fairlane_flow_requests_total{{{of_flow}}} 4.0" in text
    assert f"fairlane_flow_in_flight{{{of_flow}}} 1.0" in text
    assert f"fairlane_flow_limit{{{of_flow}}} 1000.0" in text
    assert f'fairlane_flow_answers_total{{{of_flow},verdict="sent"}} 2.0' in text
    assert f'fairlane_flow_answers_total{{{of_flow},verdict="dead"}} 1.0' in text
    assert f'fairlane_flow_answer_seconds_bucket{{{of_flow},le="0.025"}} 2.0' in text
    assert f'fairlane_flow_answer_seconds_bucket{{{of_flow},le="+Inf"}} 3.0' in text


def test_a_worker_shows_a_bounded_number_of_flows() -> None:
    table = FlowTable()
    for number in range(3 * MAX_FLOWS):
        table.of("fcm", f"app-{number}", 10).begin()
    text = exposed(FlowCollector(table.flows, dict))
    assert text.count("fairlane_flow_requests_total{") == MAX_FLOWS + 1
    assert f'fairlane_flow_requests_total{{app="(others)",channel="fcm"}} {2 * MAX_FLOWS}.0' in text


def test_a_flow_that_is_not_shown_by_itself_has_a_limit_of_its_own() -> None:
    table = FlowTable()
    for number in range(MAX_FLOWS):
        table.of("fcm", f"app-{number}", 100)
    slow, quick = table.of("fcm", "slow", 100), table.of("fcm", "quick", 100)
    for second in range(10):
        for _ in range(100):
            slow.begin()
        for _ in range(100):
            slow.end(0.01 if second < 5 else 1.0, 2.0 * second)
    assert slow.limit.limit < 80
    assert quick.limit.limit == 100
    text = exposed(FlowCollector(table.flows, dict))
    assert 'fairlane_flow_requests_total{app="(others)",channel="fcm"} 1000.0' in text
    assert 'fairlane_flow_in_flight{app="(others)",channel="fcm"} 0.0' in text


def test_caps_are_shown_with_their_present_rate_and_what_is_used_of_them() -> None:
    doors = Doors()
    paces = [Pace("quota/p", "fcm/shop", 100, 0, 400), Pace("channel/http", "http/shop", 9, 0, 9, True)]
    doors.allot(paces, [pace.flow for pace in paces], 0.0)
    assert doors.wait_s("fcm/shop", 0.1) == 0.0
    text = exposed(FlowCollector({}, lambda: doors.by_pool))
    assert 'fairlane_cap_per_second{pool="quota/p",unit="target"} 400.0' in text
    assert 'fairlane_cap_used_total{pool="quota/p",unit="target"} 1.0' in text
    assert 'fairlane_cap_per_second{pool="channel/http",unit="request"} 9.0' in text
