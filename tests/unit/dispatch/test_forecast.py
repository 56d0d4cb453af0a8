"""The fluid model: caps hold, nothing is left idle, more weight never makes a task later."""

import random
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.analysis.forecast import forecast, present_rates
from dispatcher.analysis.rates import (
    ForecastTask,
    Shares,
    TaskKind,
    rates_of,
    shares_of,
    targets_per_request,
    waterfill,
)
from dispatcher.channels.specs import SPECS
from dispatcher.model.pools import TOTAL, Cap, pools_of
from dispatcher.model.tier import TIERS
from dispatcher.model.view import Globals

TIER_WEIGHTS = {"high": 6_000, "medium": 3_000, "low": 1_000}
_names = st.sampled_from(["a", "b", "c"])
_tiers = st.sampled_from([str(tier) for tier in TIERS])
_caps = st.dictionaries(
    st.sampled_from(["app/a", "app/b", "channel/a", "channel/b", "app_channel/a/a", "app_channel/b/c"]),
    st.integers(1, 2_000).map(float),
)
SHARES = st.builds(
    Shares,
    capacity=st.integers(1, 3_000).map(float),
    paused=st.just(frozenset()),
    tier_weights=st.fixed_dictionaries({str(tier): st.integers(100, 9_000) for tier in TIERS}),
    caps=_caps,
    sharing=st.sampled_from(["tasks", "apps"]),
    app_weights=st.dictionaries(_names, st.integers(100, 9_000)),
)


def jobs_of(number: int) -> st.SearchStrategy[list[ForecastTask]]:
    job = st.builds(
        ForecastTask, id=st.just(""), app=_names, channel=_names, tier=_tiers, weight=st.integers(100, 5_000),
        pending=st.integers(1, 5_000).map(float), cap=st.sampled_from([0, 0, 0, 5, 100]),
        start_s=st.sampled_from([0.0, 0.0, 0.0, 1.0, 4.5]), on_hold=st.just(False),
    )  # fmt: skip
    return st.lists(job, min_size=1, max_size=number).map(
        lambda jobs: [job._replace(id=f"t{number}") for number, job in enumerate(jobs)]
    )


def flows_of(jobs: list[ForecastTask], shares: Shares) -> list[TaskKind]:
    return [
        TaskKind(
            j.tier, j.app, tuple(p for p in pools_of(j.app, j.channel) if p in shares.caps), j.weight, j.cap or inf
        )
        for j in jobs
    ]


@given(st.floats(0, 1e6), st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.1, 1e3)), min_size=1, max_size=8))
def test_a_share_is_within_the_need_and_nothing_is_left_that_somebody_needs(
    amount: float, needs: list[tuple[float, float]]
) -> None:
    shares = waterfill(amount, needs)
    assert all(share <= need * (1 + 1e-9) for share, (need, _) in zip(shares, needs, strict=True))
    assert sum(shares) == pytest.approx(min(amount, sum(need for need, _ in needs)))


@given(jobs_of(8), SHARES)
def test_rates_are_within_every_cap_and_conserve_work(jobs: list[ForecastTask], shares: Shares) -> None:
    kinds = flows_of(jobs, shares)
    rates = rates_of(kinds, shares)
    used = {TOTAL: sum(rates)} | {
        pool: sum(rate for rate, kind in zip(rates, kinds, strict=True) if pool in kind.pools) for pool in shares.caps
    }
    sizes = {TOTAL: shares.capacity, **shares.caps}
    assert all(used[pool] <= sizes[pool] * (1 + 1e-6) for pool in used)
    for kind, rate in zip(kinds, rates, strict=True):
        full = [pool for pool in (TOTAL, *kind.pools) if used[pool] >= sizes[pool] * (1 - 1e-6)]
        assert rate >= kind.limit * (1 - 1e-6) or full, "held back by nothing"
        assert 0 < rate <= kind.limit * (1 + 1e-9)


@given(jobs_of(8), st.floats(1, 3_000))
def test_without_caps_tiers_with_demand_share_by_weight_and_their_tasks_too(
    jobs: list[ForecastTask], capacity: float
) -> None:
    jobs = [job._replace(cap=0) for job in jobs]
    shares = Shares(capacity=capacity, tier_weights=TIER_WEIGHTS)
    rates = rates_of(flows_of(jobs, shares), shares)
    present = {job.tier for job in jobs}
    weights = sum(TIER_WEIGHTS[tier] for tier in present)
    for job, rate in zip(jobs, rates, strict=True):
        peers = sum(other.weight for other in jobs if other.tier == job.tier)
        assert rate == pytest.approx(capacity * TIER_WEIGHTS[job.tier] / weights * job.weight / peers)


@given(jobs_of(8), SHARES)
def test_everything_that_may_be_sent_ends_and_no_sooner_than_capacity_allows(
    jobs: list[ForecastTask], shares: Shares
) -> None:
    found = forecast(jobs, shares).done_s
    assert all(found[job.id] is not None for job in jobs)
    by_end = sorted((found[job.id] or 0, job) for job in jobs)
    sent = 0.0
    for done_s, job in by_end:
        sent += job.pending
        assert sent <= shares.capacity * done_s * (1 + 1e-6)
        assert done_s >= job.start_s
        assert not job.cap or job.pending <= job.cap * (done_s - job.start_s) * (1 + 1e-6)


@given(jobs_of(6), SHARES, st.integers(2, 9))
def test_more_weight_never_makes_a_task_later(jobs: list[ForecastTask], shares: Shares, factor: int) -> None:
    """Caps of pools apart: where several bind, whom a faster task holds up may be one that made room for it."""
    shares = replace(shares, caps={})
    jobs = [job._replace(cap=0) for job in jobs]
    favoured = [jobs[0]._replace(weight=jobs[0].weight * factor), *jobs[1:]]
    before, after = forecast(jobs, shares).done_s["t0"], forecast(favoured, shares).done_s["t0"]
    assert before is not None
    assert after is not None
    assert after <= before * (1 + 1e-6)


@given(jobs_of(6), SHARES, st.integers(2, 5))
def test_with_all_rates_doubled_all_is_done_in_half_the_time(
    jobs: list[ForecastTask], shares: Shares, factor: int
) -> None:
    now = [job._replace(start_s=0.0) for job in jobs]
    before = forecast(now, shares).done_s
    caps = {pool: cap * factor for pool, cap in shares.caps.items()}
    wider = replace(shares, capacity=shares.capacity * factor, caps=caps)
    after = forecast([job._replace(cap=job.cap * factor) for job in now], wider).done_s
    for job in now:
        assert (after[job.id] or 0) * factor == pytest.approx(before[job.id], rel=1e-4)


def test_a_pool_that_binds_is_shared_by_tier_weight() -> None:
    """The high tasks elsewhere do not count in the capped channel."""
    shares = Shares(capacity=1_000.0, tier_weights=TIER_WEIGHTS, caps={"channel/x": 70.0})
    jobs = [
        ForecastTask(id="h1", app="a", channel="x", tier="high", weight=1_000, pending=1.0),
        ForecastTask(id="l1", app="a", channel="x", tier="low", weight=1_000, pending=1.0),
        ForecastTask(id="h2", app="a", channel="y", tier="high", weight=1_000, pending=1.0),
        ForecastTask(id="m2", app="a", channel="y", tier="medium", weight=1_000, pending=1.0),
    ]
    rates = rates_of(flows_of(jobs, shares), shares)
    assert rates[:2] == pytest.approx([60, 10])
    assert sum(rates) == pytest.approx(1_000)


def test_paused_held_and_empty_tasks() -> None:
    shares = Shares(
        capacity=100.0, tier_weights=TIER_WEIGHTS, paused=frozenset({"off"}), paused_flows=frozenset({"on/bank"})
    )
    jobs = [
        ForecastTask(id="a", app="shop", channel="on", tier="low", weight=1_000, pending=200.0),
        ForecastTask(id="b", app="shop", channel="off", tier="high", weight=1_000, pending=5.0),
        ForecastTask(id="c", app="shop", channel="on", tier="high", weight=1_000, pending=5.0, on_hold=True),
        ForecastTask(id="d", app="shop", channel="on", tier="high", weight=1_000, pending=0.0),
        ForecastTask(id="e", app="bank", channel="on", tier="high", weight=1_000, pending=5.0),
    ]
    assert forecast(jobs, shares).done_s == {"a": pytest.approx(2.0), "b": None, "c": None, "d": 0.0, "e": None}


def test_unlimited_capacity_is_limited_by_caps_alone() -> None:
    shares = Shares(capacity=inf, tier_weights=TIER_WEIGHTS, caps={"app/shop": 50.0})
    jobs = [
        ForecastTask(id="a", app="shop", channel="x", tier="high", weight=1_000, pending=100.0),
        ForecastTask(id="b", app="news", channel="x", tier="high", weight=1_000, pending=1.0),
        ForecastTask(id="c", app="news", channel="x", tier="high", weight=1_000, pending=60.0, cap=30),
    ]
    found = forecast(jobs, shares)
    assert found.done_s == {"a": pytest.approx(2.0), "b": 0.0, "c": pytest.approx(2.0)}
    assert found.free == {"b"}
    assert found.steps[0][1] == {"high": pytest.approx(80.0)}


def test_task_that_nothing_limits_once_it_starts_is_free() -> None:
    shares = Shares(capacity=inf, tier_weights=TIER_WEIGHTS)
    later = ForecastTask(id="a", app="a", channel="x", tier="high", weight=1_000, pending=9.0, start_s=5.0)
    found = forecast([later], shares)
    assert found.done_s == {"a": 5.0}
    assert found.free == {"a"}


def test_a_cap_in_requests_lets_an_envelope_through_where_that_is_a_request() -> None:
    shares = Shares(
        capacity=inf,
        tier_weights=TIER_WEIGHTS,
        caps={"quota/project": 10.0, "app/bank": 30.0},
        request_caps=frozenset({"quota/project"}),
        quotas={"http/shop": "project", "http/bank": "project"},
    )
    of_shop = ForecastTask(
        id="a", app="shop", channel="http", tier="high", weight=1_000, pending=5_000.0, per_request=100
    )
    small = of_shop._replace(id="b", per_request=20, pending=1_000.0)
    bank = ForecastTask(id="c", app="bank", channel="http", tier="high", weight=1_000, pending=60.0, per_request=10)
    assert forecast([of_shop], shares).done_s == {"a": pytest.approx(5.0)}
    assert forecast([of_shop, small], shares).done_s == {"a": pytest.approx(10.0), "b": pytest.approx(10.0)}
    rates = present_rates([of_shop, bank], shares)  # the app's cap takes three requests, and the others get the rest
    assert rates == {"a": pytest.approx(700.0), "c": pytest.approx(30.0)}


def test_settings_say_which_caps_are_in_requests_and_channels_how_many_targets_one_has() -> None:
    caps = {"quota/project": Cap(10), "quota/other": Cap(20)}
    settings = Globals(capacity=0, tier_weights={}, caps=caps, quota_units={"project": "request"})
    shares = shares_of(settings)
    assert shares.caps == {"quota/project": 10.0, "quota/other": 20.0}
    assert shares.request_caps == {"quota/project"}
    assert [targets_per_request(channel, 100) for channel in (*SPECS, "http", "mine")] == [1, 1, 100, 100]


@given(jobs_of(8), SHARES, st.integers(1, 50))
def test_counting_requests_of_many_targets_is_as_a_larger_cap(
    jobs: list[ForecastTask], shares: Shares, size: int
) -> None:
    every = [replace(kind, per_request=size) for kind in flows_of(jobs, shares)]
    in_requests = replace(shares, request_caps=frozenset(shares.caps))
    larger = replace(shares, caps={pool: cap * size for pool, cap in shares.caps.items()})
    assert rates_of(every, in_requests) == pytest.approx(rates_of(flows_of(jobs, shares), larger), rel=1e-4)


def test_many_tasks_are_foreseen_with_ends_taken_together() -> None:
    jobs = [
        ForecastTask(id=f"t{n}", app="shop", channel="x", tier="low", weight=1_000, pending=float(n + 1))
        for n in range(6_000)
    ]
    found = forecast(jobs, Shares(capacity=1_000.0, tier_weights=TIER_WEIGHTS)).done_s
    total = sum(job.pending for job in jobs) / 1_000
    assert found["t5999"] == pytest.approx(total, rel=1e-3)
    assert found["t2999"] == pytest.approx(sum(min(n + 1, 3_000) for n in range(6_000)) / 1_000, rel=0.01)


@pytest.mark.parametrize("cap", [0, 5])
def test_ends_taken_together_are_near_those_taken_one_by_one(cap: int) -> None:
    """Also of few large tasks behind many small ones, of tasks that start later, and of those with a cap."""
    chosen = random.Random(1)
    jobs = [
        ForecastTask(
            id=f"t{n}", app=f"a{n % 3}", channel="x", tier=str(TIERS[n % 2]), weight=1_000 * chosen.choice([1, 2]),
            pending=float(chosen.randrange(1, 500) if n % 100 else 50_000), cap=0 if n % 7 else cap,
            start_s=chosen.choice([0.0, 0.0, chosen.random() * 100]),
        )
        for n in range(600)
    ]  # fmt: skip
    shares = Shares(capacity=1_000.0, tier_weights=TIER_WEIGHTS, caps={"app/a1": 200.0})
    exact, together = forecast(jobs, shares).done_s, forecast(jobs, shares, 150).done_s
    for job in jobs:
        assert together[job.id] == pytest.approx(exact[job.id], rel=0.1, abs=1)
