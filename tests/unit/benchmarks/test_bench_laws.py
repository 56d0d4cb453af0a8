"""`python -m benchmarks laws`: what it makes of the deliveries that it reads."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks import slow_log
from benchmarks.deliveries import Delivery
from benchmarks.laws import deviation, judged, judged_uncapped, windows_of_targets, windows_of_time
from consumers.delivery.channel_registry import load_channels
from dispatcher.model.errors import FairlaneError
from tests.unit.benchmarks.test_bench_full_speed import by_weight


def steady(seconds: int) -> list[Delivery]:
    """2,000 targets/s in envelopes of 10, by weight."""
    return by_weight(200 * seconds, every_us=5_000)


def test_shares_by_weight_at_the_capacity_are_within_the_laws() -> None:
    found = judged(steady(20))
    assert found["worst_of_10000_points"] < 0.2
    assert found["worst_of_10_s_points"] < 0.2
    assert found["most_in_a_second"] == 2_000 < found["limit_in_a_second"] == 2_530


def test_one_stretch_out_of_order_and_one_burst_are_found() -> None:
    late = [delivery for delivery in steady(20) if not (delivery.tier == "low" and 8e6 < delivery.at_us < 12e6)]
    assert judged(late)["worst_of_10_s_points"] > 3
    burst = sorted([*steady(20), *(Delivery(7_000_000, "high", 10) for _ in range(100))])
    assert judged(burst)["most_in_a_second"] > 2_530


def test_windows_are_as_long_as_they_are_said_to_be() -> None:
    assert {window.total() for window in windows_of_targets(steady(20), 10_000)} == {10_000}
    assert {window.total() for window in windows_of_time(steady(20), 10_000_000)} == {20_000}


def test_the_deviation_is_that_of_the_tier_furthest_off() -> None:
    assert deviation(Counter(high=60, medium=30, low=10)) == 0
    assert round(deviation(Counter(high=50, medium=30, low=20)), 9) == 10


def test_without_a_capacity_shares_and_rate_are_told_beside_the_largest_envelope() -> None:
    found = judged_uncapped([*steady(20), Delivery(20_000_000, "high", 250)])
    assert found["worst_of_10000_points"] < found["envelope_of_each_tier_points"] == 2.7
    assert found["worst_of_10_s_points"] < 1
    assert found["targets_per_s"] == 2_012.5


def test_workers_can_be_told_of_the_slow_channel(tmp_path: Path) -> None:
    environment = slow_log.environment(tmp_path / "delivered.jsonl")
    classes, settings = (json.loads(environment[name]) for name in ("FAIRLANE_WORKER_CHANNELS", "FAIRLANE_CHANNELS"))
    channel = load_channels(classes, settings)[slow_log.NAME]
    assert (channel.name, channel.concurrency, channel.batch_limit) == (slow_log.NAME, slow_log.CALLS, 1)


@pytest.mark.parametrize("judge", [judged, judged_uncapped])
@pytest.mark.parametrize("found", [[], steady(1)[:1], steady(6)], ids=["none", "one", "too short a time"])
def test_too_little_to_judge_is_said(
    judge: Callable[[Sequence[Delivery]], dict[str, float]], found: list[Delivery]
) -> None:
    with pytest.raises(FairlaneError, match="too few"):
        judge(found)


def test_a_tier_that_got_nothing_is_a_figure() -> None:
    none_low = [delivery for delivery in steady(20) if delivery.tier != "low"]
    assert judged(none_low)["worst_of_10_s_points"] == pytest.approx(10)
