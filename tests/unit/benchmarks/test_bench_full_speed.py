"""`python -m benchmarks full-speed`: what it makes of the deliveries, and the channel that notes them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tally_channel
from benchmarks.deliveries import Delivery
from benchmarks.full_speed import judged, standing
from consumers.delivery.channel_registry import load_channels
from dispatcher.model.errors import FairlaneError
from dispatcher.wire.envelope import Envelope
from tests.unit.dispatch.consumers.envelopes import envelope

TURN = ["high"] * 6 + ["medium"] * 3 + ["low"]
QUEUED = {"high": 60_000, "medium": 30_000, "low": 10_000}


def by_weight(count: int, *, chunk: int = 10, every_us: int = 100) -> list[Delivery]:
    """One task a tier, named like it."""
    return [Delivery(n * every_us, TURN[n % 10], chunk, TURN[n % 10]) for n in range(count)]


def test_shares_by_weight_are_within_the_law() -> None:
    found = judged(by_weight(20_000))
    assert found["worst_of_10000_points"] == found["shares_off_points"] == 0
    assert found["of_10000_within_law_percent"] == 100
    assert found["targets_per_s"] == pytest.approx(100_000, rel=0.01)
    assert "worst_of_10_s_points" not in found


def test_a_tier_that_is_passed_over_for_a_while_is_found() -> None:
    found = by_weight(20_000)
    gap = [one for n, one in enumerate(found) if not (one.tier == "high" and 5_000 < n < 10_000)]
    figures = judged(gap)
    assert figures["median_of_10000_points"] == 0
    assert figures["worst_of_10000_points"] == pytest.approx(60, abs=10)
    assert 50 < figures["of_10000_within_law_percent"] < 95
    assert figures["worst_of_a_second_points"] > 3


def test_an_envelope_of_each_tier_more_or_less_is_within_the_law() -> None:
    found = judged(by_weight(200, chunk=500))
    assert found["envelope_of_each_tier_points"] == 15
    assert found["of_10000_within_law_percent"] == 100


def test_judged_is_what_was_sent_while_every_task_had_something() -> None:
    early = [Delivery(0, "low", 10, "low")] * 50
    late = [Delivery(2_000_000, "high", 10, "high")] * 2_000
    found = standing([*early, *by_weight(6_000), *late], QUEUED)
    assert found[0] == Delivery(600, "medium", 10, "medium")
    assert sum(one.targets for one in found if one.tier == "high") == 0.8 * QUEUED["high"] - 6 * 10


def test_too_little_to_judge_is_said() -> None:
    assert standing([Delivery(0, "low", 10, "low")], QUEUED) == []
    with pytest.raises(FairlaneError, match="too few"):
        judged(standing(by_weight(500), QUEUED))


def test_the_channel_notes_every_delivery_in_order(tmp_path: Path) -> None:
    path = tmp_path / "tally"
    environment = tally_channel.environment(path)
    classes, settings = (json.loads(environment[name]) for name in ("FAIRLANE_WORKER_CHANNELS", "FAIRLANE_CHANNELS"))
    channel: Any = load_channels(classes, settings)[tally_channel.NAME]

    async def deliver(*calls: tuple[list[Envelope], str]) -> None:
        await channel.open()
        for envelopes, tier in calls:
            assert len(await channel.deliver(envelopes, tier)) == len(envelopes)
        await channel.close()

    one, other = envelope(1), envelope(2)
    asyncio.run(deliver(([one, other], "high"), ([one], "low")))
    with path.open("a") as file:
        file.write("1764000000000000 t hi")
    found = list(tally_channel.tallied(path))
    assert [(d.tier, d.targets, d.task) for d in found] == [("high", 1, one.task)] * 2 + [("low", 1, one.task)]
