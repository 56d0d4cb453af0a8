"""Signals for autoscaling: what they say in each situation."""

from math import inf

import msgspec
import pytest

from dispatcher.analysis.rates import ForecastTask
from dispatcher.analysis.served import WaitingTasks
from dispatcher.model.pools import Cap
from dispatcher.model.view import Globals, TierStats, WorkerBeat
from fairlane.figures.signals import ServiceState, SignalMeter, Signals
from tests import records

WEIGHTS = {"high": 6, "medium": 3, "low": 1}


def beat(worker: str, high: float = 0.0, low: float = 0.0, state: str = "serving") -> WorkerBeat:
    tiers = {"high": TierStats(rate=high), "medium": TierStats(), "low": TierStats(rate=low)}
    return records.beat(worker, state, rate=high + low, tiers=tiers)


def job(tier: str, pending: float, **fields: object) -> ForecastTask:
    return ForecastTask(
        id=f"{tier}-{fields}", app="shop", channel="http", tier=tier, weight=1_000, pending=pending
    )._replace(**fields)  # type: ignore[arg-type]


def signals(*jobs: ForecastTask, beats: list[WorkerBeat], capacity: int = 1_000, **settings: object) -> Signals:
    stored = Globals(capacity=capacity, tier_weights=WEIGHTS, **settings)  # type: ignore[arg-type]
    return SignalMeter().take(ServiceState(0.0, jobs, stored, beats))


def test_a_service_with_nothing_to_do() -> None:
    found = signals(beats=[beat("a")])
    assert (found.workers, found.limited_by, found.workers_needed, found.rate) == (1, "demand", 0, 0)
    for tier in found.tiers:
        assert (tier.backlog, tier.drain_s, tier.wanted, tier.actual) == (0, 0.0, 0.0, 0.0)
        assert tier.spare == pytest.approx(1_000)


def test_what_waits_of_its_own_accord_is_no_backlog() -> None:
    found = signals(
        job("high", 50.0, on_hold=True),
        job("high", 70.0, start_s=5.0),
        job("high", 90.0, channel="off"),
        job("high", 7.0),
        beats=[],
        paused_channels=frozenset({"off"}),
    )
    assert found.of("high").backlog == 7
    assert found.of("high").drain_s is None


def test_at_capacity_more_workers_are_of_no_use() -> None:
    found = signals(job("high", 9_000), job("low", 3_000), beats=[beat("a", 430, 72), beat("b", 427, 71)])
    assert (found.workers, found.limited_by, found.workers_needed) == (2, "capacity", 2)
    high = found.of("high")
    assert high.drain_s == pytest.approx(9_000 / 857)
    assert high.wanted == pytest.approx(6 / 7)
    assert high.actual == pytest.approx(0.857)
    assert high.spare == pytest.approx(0.14, abs=0.01)
    assert found.of("medium").spare == pytest.approx(300)


def test_a_backlog_that_capacity_would_send_and_workers_do_not_asks_for_workers() -> None:
    found = signals(job("high", 90_000), beats=[beat("a", 300), beat("b", 300)])
    assert (found.limited_by, found.workers_needed) == ("workers", 4)
    assert found.of("high").spare == pytest.approx(400)
    assert signals(job("high", 90_000), beats=[beat("a", 700)]).workers_needed == 2
    assert signals(job("high", 90_000), beats=[beat("a", 1.0)]).workers_needed == 2
    assert signals(job("high", 90_000), beats=[]).workers_needed == 1
    assert signals(job("high", 90_000), beats=[beat("a", 300), beat("l", 500, state="lost")]).rate == 300


def test_a_backlog_whose_channel_no_worker_has_asks_for_no_more_of_the_same_workers() -> None:
    """It asked for twice as many, for ever."""
    mail = msgspec.structs.replace(beat("a"), extra={"channels": ["mail"]})
    found = signals(job("high", 9_000, channel="sms"), job("low", 50, channel="mail"), beats=[mail])
    assert found.missing == [WaitingTasks("sms", 1, 9_000)]
    assert (found.of("high").backlog, found.of("low").backlog) == (0, 50)
    assert (found.limited_by, found.workers_needed) == ("workers", 2), "for what they can send"
    alone = signals(job("high", 9_000, channel="sms"), beats=[mail])
    assert (alone.limited_by, alone.workers_needed) == ("demand", 0)
    at_zero = signals(job("high", 9_000, channel="sms"), beats=[])
    assert (at_zero.limited_by, at_zero.workers_needed, at_zero.missing) == ("workers", 1, [])


def test_a_backlog_that_a_cap_holds_back_asks_for_no_workers() -> None:
    found = signals(job("high", 90_000), beats=[beat("a", 99)], caps={"channel/http": Cap(100)})
    assert (found.limited_by, found.caps, found.workers_needed) == ("caps", ["channel/http"], 1)
    assert found.of("high").spare == pytest.approx(901)


@pytest.mark.parametrize(("cap", "sent"), [(9, 0.0), (9, 100 / 3), (40, 100 / 3), (40, 200 / 3)])
def test_cap_that_lets_an_envelope_through_now_and_then_limits_between_them_too(cap: int, sent: float) -> None:
    """Rates are of the last 3 s, in which a cap of 9/s lets none of a hundred through, or one."""
    own, pool = job("high", 90_000, id="big", cap=cap, chunk=100), job("high", 90_000, chunk=100)
    for found in (
        signals(own, beats=[beat("a", sent)]),
        signals(pool, beats=[beat("a", sent)], caps={"channel/http": Cap(cap)}),
        signals(pool, pool, beats=[beat("a", sent)], caps={"channel/http": Cap(cap)}),
    ):
        assert (found.limited_by, found.workers_needed) == ("caps", 1)
    beside = signals(own, job("high", 90_000, chunk=100), beats=[beat("a", sent)])
    assert beside.limited_by == "workers", "what no cap holds back is not sent either"
    assert signals(own, beats=[]).limited_by == "workers"


def test_cap_of_requests_binds_by_its_requests() -> None:
    counted = {"caps": {"quota/fleet": Cap(10)}, "quotas": {"http/shop": "fleet"}, "quota_units": {"fleet": "request"}}
    of_a_hundred = job("high", 90_000, per_request=100, chunk=100)
    found = signals(of_a_hundred, beats=[beat("a", 500)], capacity=500, **counted)
    assert (found.limited_by, found.caps) == ("capacity", [])
    found = signals(of_a_hundred, beats=[beat("a", 1_000)], capacity=5_000, **counted)
    assert (found.limited_by, found.caps) == ("caps", ["quota/fleet"])


def test_the_cap_of_a_task_is_named_and_so_is_each_that_binds_beside_the_capacity() -> None:
    alone = signals(job("high", 90_000, id="big", cap=500), beats=[beat("a", 499)], capacity=2_014)
    assert (alone.limited_by, alone.caps) == ("caps", ["task/big"])
    assert alone.of("high").spare == pytest.approx(1_515)
    capped = (job("high", 90_000, id="big", cap=100), job("high", 90_000, app="news"))
    beside = signals(*capped, beats=[beat("a", 1_000)], caps={"app/news": Cap(5_000), "app/shop": Cap(4_000)})
    assert (beside.limited_by, beside.caps) == ("capacity", ["task/big"])
    idle = signals(job("high", 10, id="small", cap=500), beats=[beat("a", 100)])
    assert (idle.limited_by, idle.caps) == ("demand", [])


def test_without_a_limit_workers_are_what_limits() -> None:
    found = signals(job("high", 90_000), beats=[beat("a", 5_000)], capacity=0)
    assert (found.limited_by, found.workers_needed, found.of("high").spare) == ("workers", 2, None)


def test_what_is_merely_under_way_is_no_backlog() -> None:
    found = signals(job("high", 30), beats=[beat("a", 100)])
    assert found.limited_by == "demand"
    assert found.of("low").spare == pytest.approx(900)


def test_arrivals_are_what_queues_grew_by_and_what_was_sent() -> None:
    meter, settings = SignalMeter(), Globals(capacity=1_000, tier_weights=dict(WEIGHTS))
    found = [
        meter.take(ServiceState(float(at_s), [job("high", 1_000 + 50.0 * at_s)], settings, [beat("a", 200)])).of("high")
        for at_s in range(0, 20, 2)
    ]
    assert found[0].arrival_rate == 200
    assert [signal.arrival_rate for signal in found[1:]] == [pytest.approx(250)] * 9
    quiet = [
        meter.take(ServiceState(20.0 + at_s, [job("high", 1_950)], settings, [beat("a")])).of("high")
        for at_s in range(0, 9, 2)
    ]
    assert quiet[-1].arrival_rate == 0
    assert quiet[-1].spare is not None
    assert quiet[-1].spare < inf
