"""The benchmark of the HTTP/2 client alone."""

from benchmarks.delivery.client_alone import Load, run


def test_all_requests_are_answered_and_measured() -> None:
    load = Load(connections=2, streams=50, requests=1_000)
    found = run(load, latency_ms=20)
    assert set(found) == {"requests_s", "cpu_us", "p50_ms", "p99_ms", "memory_mb", "server_cpu_us"}
    assert found["p50_ms"] >= 20
    assert 0 < found["requests_s"] <= 2 * 50 / 0.02
