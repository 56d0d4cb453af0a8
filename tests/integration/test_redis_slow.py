"""A Redis that answers 100 ms late, whatever it is asked: sending keeps at least 80 % of its rate."""

from bisect import bisect_left
from contextlib import nullcontext
from itertools import accumulate
from pathlib import Path

import pytest

from fairlane import PushClient, PushTask, Settings
from tests import redis_server
from tests.delaying_proxy import delaying_proxy
from tests.integration.worker_crew import Crew, crew, delivered_at_s

DELAY_S = 0.1


def middle_rate(members: Crew, task: str) -> float:
    """Targets/s delivered between the first tenth and the last: neither start nor end counts."""
    sent = sorted((at_s, targets) for at_s, name, targets in delivered_at_s(members) if name == task)
    totals = list(accumulate(targets for _, targets in sent))
    first, last = (bisect_left(totals, totals[-1] * tenths // 10) for tenths in (1, 9))
    return (totals[last] - totals[first]) / (sent[last][0] - sent[first][0])


def rate(settings: Settings, folder: Path, capacity: int, chunk: int, targets: int, delay_s: float) -> float:
    binary = next(iter(redis_server.binaries().values()))
    with (
        redis_server.running(binary) as server,
        delaying_proxy(server.port, delay_s) if delay_s else nullcontext(server.port) as port,
    ):
        url = f"redis://127.0.0.1:{port}/0"
        slow = settings.model_copy(update={"redis": settings.redis.model_copy(update={"url": url})})
        with PushClient.connect(slow) as client:
            client.set_capacity(capacity)
            task = PushTask(app="a", tier="high", channel="log", message={}, chunk=chunk, hold_until_sealed=True)
            handle = client.submit(task, (f"d-{number}" for number in range(targets)))
            with crew(slow, folder, "w1") as members:
                assert handle.wait(120).targets.sent == targets
                return middle_rate(members, handle.id)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("capacity", "chunk", "targets"),
    [
        pytest.param(0, 1, 400_000, marks=pytest.mark.alone),
        pytest.param(0, 100, 6_000_000, marks=pytest.mark.alone),
        (2_000, 10, 20_000),
    ],
)
def test_a_slow_redis_costs_a_fifth_of_the_rate_at_most(
    capacity: int, chunk: int, targets: int, two_settings: tuple[Settings, Settings], tmp_path: Path
) -> None:
    clean = rate(two_settings[0], tmp_path / "clean", capacity, chunk, targets, 0.0)
    slow = rate(two_settings[1], tmp_path / "slow", capacity, chunk, targets, DELAY_S)
    print(f"clean {clean:.0f} slow {slow:.0f} {slow / clean:.3f}")
    assert slow >= 0.8 * clean
