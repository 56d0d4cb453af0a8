"""Checks of everything Fairlane needs, each with how to fix it."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import redis

from backends.pulsar import provision
from backends.pulsar.estate.questions import Depth
from backends.redis import client as redis_client
from backends.redis.job_locks import JobLocks
from backends.redis.view import RedisView, open_view
from dispatcher.analysis.finding import Finding
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError
from estate.cluster import Estate
from estate.rules.check import check_estate
from fairlane.checks.sentinel_checks import sentinel_findings
from fairlane.checks.view_checks import view_findings
from fairlane.estate.look import estate_reader, expectations, look_at, read_guarded
from fairlane.settings import Settings
from fairlane.stack import java, redis_server
from fairlane.stack.distribution import VERSION
from fairlane.stack.errors import StackError

SKEW_WARN_MS = 250
SKEW_FAIL_MS = 2_000
"""Maximum difference between our clock and Redis'.

Redis' clock decides on leases and ends of claims; ours decides on the times that a task states (start, expiry).
"""
ANSWER_S = 10.0
"""Limit for one request to Pulsar. Brokers whose metadata store hangs answer after half a minute, or never."""
_LOCK_MS = 1_000
_RUN_GUARD = "Run `fairlane estate guard --act`."


def examine(settings: Settings, clock: Clock) -> list[Finding]:
    """Return all findings, each after those it depends on. Raises no error that a finding can report."""
    limit_s = min(ANSWER_S, settings.pulsar.operation_timeout_s)
    pulsar = settings.pulsar.model_copy(update={"operation_timeout_s": limit_s})
    settings = settings.model_copy(update={"pulsar": pulsar})
    parts: tuple[Callable[[], Iterable[Finding]], ...] = (
        lambda: _local(settings),
        lambda: provision.check(settings.pulsar),
        lambda: estate_findings(settings),
        lambda: _redis(settings, clock),
        lambda: view_findings(settings),
    )
    with ThreadPoolExecutor(len(parts)) as pool:  # Java alone takes 70 ms to print its version
        return [finding for findings in pool.map(lambda part: list(part()), parts) for finding in findings]


def _local(settings: Settings) -> Iterator[Finding]:
    """Check Java, Maven and the cached distribution. Only the local stack needs them, so a missing one is a warning."""
    only = "only the local stack needs it"
    try:
        java_program = java.find(os.environ)
        yield Finding("ok", f"Java {java_program.version} ({java_program.program})")
    except StackError as error:
        yield Finding("warn", f"{error.cause} ({only})", error.next_step)
    cached = (settings.cache_folder / f"apache-pulsar-{VERSION}").is_dir()
    if cached:
        yield Finding("ok", f"Pulsar {VERSION} is in the cache ({settings.cache_folder})")
    elif shutil.which("mvn"):
        yield Finding("ok", "Maven is there; it fetches Pulsar when the local stack is first started")
    else:
        yield Finding("warn", f"Maven was not found ({only}, once)", "Install it, or run `make setup`.")


def estate_findings(settings: Settings) -> Iterator[Finding]:
    """Yield the findings of all brokers and bookies, asked all at once. Raises no error that a finding can report."""
    try:
        with closing(estate_reader(settings)) as reader:
            estate = look_at(settings, reader, Depth.SETTINGS | Depth.TOPICS | Depth.STORAGE)
    except FairlaneError as error:
        yield Finding("warn", f"Brokers and bookies were not looked at. {error.cause}", error.next_step)
        return
    yield from check_estate(estate, expectations(settings))
    yield from _settings_of_some(estate)
    yield from _guard(settings)


def _guard(settings: Settings) -> Iterator[Finding]:
    """Yield what is wrong with the guard. Whether Redis can be reached at all is a finding of its own."""
    guarded = read_guarded(settings)
    if settings.estate.guard and not guarded.guard and not guarded.failure:
        reason = "a slow bookie stays in use, and with receipts before all copies it fills the brokers' memory"
        yield Finding("warn", "estate.guard is set and no guard runs", _RUN_GUARD, reason=reason)
    for what in guarded.wrong():
        yield Finding("warn", what, _RUN_GUARD if not guarded.guard else "Wait until its probes are well.")


def _settings_of_some(estate: Estate) -> Iterator[Finding]:
    """Yield the broker settings that Fairlane relies on and some brokers only have.

    Those of the broker at the configured address are reported with the cluster.
    """
    asked = [broker for broker in estate.brokers if broker.settings]
    for setting in provision.BROKER_SETTINGS:
        wrong = [one for one in asked if not setting.good(one.settings.get(setting.name, ""))]
        if 0 < len(wrong) < len(asked):
            yield Finding(
                setting.level,
                f"broker setting {setting.name} of {', '.join(one.name for one in wrong)}",
                f"Set it to {setting.wanted} in broker.conf of each and restart.",
                figure=f"{wrong[0].settings.get(setting.name, 'not known')} at {len(wrong)} of {len(asked)} brokers",
                reason=setting.reason,
            )


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
    oldest = ".".join(map(str, redis_server.OLDEST))
    old = not redis_server.is_new_enough(redis_version)
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
