"""Checks of everything Fairlane needs, each with how to fix it."""

import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import redis

from backends.pulsar import provision
from backends.redis import client as redis_client
from backends.redis.faults import OLDEST, is_new_enough
from backends.redis.view import RedisView, open_view
from backends.redis.workers import JobLocks
from dispatcher.analysis.finding import Finding
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError
from fairlane.checks.sentinel_checks import sentinel_findings
from fairlane.checks.view_checks import view_findings
from fairlane.floors import FINDINGS, loaded
from fairlane.settings import Settings

SKEW_WARN_MS = 250
SKEW_FAIL_MS = 2_000
"""Maximum difference between our clock and Redis'.

Redis' clock decides on leases and ends of claims; ours decides on the times that a task states (start, expiry).
"""
ANSWER_S = 10.0
"""Limit for one request to Pulsar. Brokers whose metadata store hangs answer after half a minute, or never."""
_LOCK_MS = 1_000


def examine(settings: Settings, clock: Clock) -> list[Finding]:
    """Return all findings, each after those it depends on. Raises no error that a finding can report."""
    limit_s = min(ANSWER_S, settings.pulsar.operation_timeout_s)
    pulsar = settings.pulsar.model_copy(update={"operation_timeout_s": limit_s})
    settings = settings.model_copy(update={"pulsar": pulsar})
    parts: tuple[Callable[[], Iterable[Finding]], ...] = (
        lambda: provision.check(settings.pulsar),
        lambda: _redis(settings, clock),
        lambda: view_findings(settings),
        *(partial(loaded(findings), settings) for findings in FINDINGS),
    )
    with ThreadPoolExecutor(len(parts)) as pool:  # Java alone takes 70 ms to print its version
        return [finding for findings in pool.map(lambda part: list(part()), parts) for finding in findings]


def _redis(settings: Settings, clock: Clock) -> Iterator[Finding]:
    try:
        with closing(open_view(settings.redis)) as view, redis_client.translated(view.client):
            yield from _redis_server(view.client)
            yield from sentinel_findings(view.client)
            yield _clock_skew(view.client, clock)
            yield _rights(view)
    except FairlaneError as error:
        yield Finding("fail", error.cause, error.next_step)


def _rights(view: RedisView) -> Finding:
    """Run scripts as workers do: they read, write and delete keys of the prefix."""
    locks, owner = JobLocks(view), secrets.token_hex(8)
    locks.hold(["doctor"], owner, _LOCK_MS, 1, ())
    locks.release(["doctor"], owner)
    return Finding("ok", "the user of Redis may run Fairlane's scripts", reason=f"least rights: {view.client.rule}")


def _redis_server(client: redis_client.RedisClient) -> Iterator[Finding]:
    info: dict[str, Any] = client.info()
    name = "Valkey" if info.get("server_name") == "valkey" else "Redis"
    redis_version = str(info.get("redis_version", ""))
    version = info.get("valkey_version") or redis_version or "of an unknown version"
    oldest = ".".join(map(str, OLDEST))
    old = not is_new_enough(redis_version)
    yield Finding(
        "fail" if old else "ok",
        f"{name} {version} at {client.address.named()} answers",
        f"Fairlane needs {oldest} or newer." if old else "",
    )
    yield from (check(info) for check in (_eviction, _persistence, _single))


def _eviction(info: dict[str, Any]) -> Finding:
    policy = info.get("maxmemory_policy", "unknown")
    if policy == "noeviction":
        return Finding("ok", "Redis never evicts keys (noeviction)")
    return Finding("fail", f"Redis evicts keys when memory is short ({policy})", "Set maxmemory-policy to noeviction.")


def _persistence(info: dict[str, Any]) -> Finding:
    if info.get("aof_enabled"):
        return Finding("ok", "Redis keeps an append-only file")
    fix = "Set appendonly to yes; without it every restart is followed by a rebuild from Pulsar."
    return Finding("warn", "Redis keeps no append-only file", fix)


def _single(info: dict[str, Any]) -> Finding:
    if info.get("cluster_enabled"):
        return Finding(
            "fail", "This is a Redis Cluster", "Use a single Redis: the ledger's scripts touch many keys at once."
        )
    return Finding("ok", "Redis is a single server")


def _clock_skew(client: redis.Redis, clock: Clock) -> Finding:
    before = clock.wall_ms()
    seconds, micros = client.time()
    middle = (before + clock.wall_ms()) / 2
    skew_ms = abs(seconds * 1000 + micros / 1000 - middle)
    what = f"this machine's clock and Redis' differ by {skew_ms:.0f} ms"
    if skew_ms < SKEW_WARN_MS:
        return Finding("ok", what)
    return Finding("fail" if skew_ms >= SKEW_FAIL_MS else "warn", what, "Run a time service (NTP) on both machines.")
