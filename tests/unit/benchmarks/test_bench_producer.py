"""`python -m benchmarks producer`: what it makes of what its processes tell."""

from typing import Any

from benchmarks.producer import longest_still_s, rate_between
from benchmarks.producer_process import BODIES, Spec, Times, bodies_of, settings_of, slices

SAMPLES = [(at / 10, 100 * at if at < 20 else 2_000 if at < 40 else 2_000 + 100 * (at - 40)) for at in range(60)]
"""1,000 messages/s for 2 s, nothing for 2 s, 1,000/s again."""


def spec(**fields: Any) -> Spec:
    given: dict[str, Any] = {"url": "pulsar://p:1", "topic": "persistent://t/n/x", "partitions": 4, "variant": "router"}
    return Spec(**(given | fields))


def test_rates_are_of_the_time_asked_for() -> None:
    assert round(rate_between(SAMPLES, 0.0, 1.9)) == 1_000
    assert rate_between(SAMPLES, 2.5, 3.5) == 0.0
    assert rate_between(SAMPLES, 10.0, 20.0) == 0.0


def test_the_longest_time_without_anything_stored() -> None:
    assert longest_still_s(SAMPLES, 0.0, 1.9) == 0.0
    assert round(longest_still_s(SAMPLES, 0.0, 6.0), 1) == 2.0


def test_times_count_messages_not_calls() -> None:
    times = Times()
    times.add(-1.0, 1)
    times.add(-100_000.0, 99)
    assert times.quantile_ms(0.01) < times.quantile_ms(0.5) == times.quantile_ms(0.99)


def test_as_many_messages_are_sent_as_asked_for() -> None:
    made = bodies_of(spec(chunk=2))
    assert len({*made}) == BODIES
    assert sum(map(len, slices(spec(chunk=2, messages=1_001), made))) == 1_001
    assert sum(map(len, slices(spec(chunk=2, messages=101, rate=1e6), made))) == 101


def test_the_tuned_producer_is_set_up_as_a_submissions_is() -> None:
    settings = settings_of(spec(chunk=500))
    assert (settings.partitions, settings.batch_messages) == (4, 6)
