"""Checks of the Sentinels that `redis.url` names, and of what bounds a primary that is cut off."""

from collections.abc import Iterator
from typing import Any

from backends.redis.client import RedisClient
from backends.redis.sentinel import FollowingPool, State
from dispatcher.analysis.finding import Finding

_ENOUGH = 3
_SLACK_S = 3
"""How much later than the Sentinels' verdict a primary without replicas may stop to write: the claims wait has 4 s of
spare time, and Redis counts its replicas once a second."""


def sentinel_findings(client: RedisClient) -> Iterator[Finding]:
    """Yield the findings on a service with Sentinels; none for a single address. Raises the vendor's errors."""
    pool = client.connection_pool
    if not isinstance(pool, FollowingPool):
        return
    states = pool.sentinels.states()
    answers = {name: state for name, state in states.items() if not isinstance(state, Exception)}
    yield from _silent(states, len(pool.sentinels.hosts))
    yield _agreement(answers)
    yield from _too_few(answers, len(pool.sentinels.hosts))
    yield _bounded(client, min((_number(state, "down-after-milliseconds") for state in answers.values()), default=0))


def _silent(states: dict[str, State | Exception], listed: int) -> Iterator[Finding]:
    for name, state in states.items():
        if isinstance(state, Exception):
            yield Finding("warn", f"the Sentinel {name} gives no answer: {state}", "Check that it is running.")
    if len(states) < listed:
        yield Finding("warn", f"{listed - len(states)} of {listed} Sentinels did not answer in time", "Check them.")


def _agreement(answers: dict[str, State]) -> Finding:
    named = {f"{state['ip']}:{state['port']}" for state in answers.values()}
    if len(named) == 1:
        return Finding("ok", f"{len(answers)} Sentinels name {named.pop()} as the primary")
    which = ", ".join(f"{name}: {state['ip']}:{state['port']}" for name, state in sorted(answers.items()))
    fix = "Wait if a failover is in progress; else check the network between them (`SENTINEL CKQUORUM`)."
    return Finding("warn", f"the Sentinels name different primaries ({which})", fix)


def _too_few(answers: dict[str, State], listed: int) -> Iterator[Finding]:
    watching = max((_number(state, "num-other-sentinels") + 1 for state in answers.values()), default=0)
    if watching < _ENOUGH:
        what = f"only {watching} Sentinels watch this Redis: after the loss of one there is no failover"
        yield Finding("warn", what, "Run at least three, on machines of their own.")
    elif listed < _ENOUGH:
        what = f"redis.url names {listed} of {watching} Sentinels: without these, clients find no primary"
        yield Finding("warn", what, "Name at least three in redis.url, the same everywhere.")
    if answers and max(_number(state, "num-slaves") for state in answers.values()) == 0:
        yield Finding("warn", "the Sentinels see no replica that could take over", "Start a replica.")


def _bounded(client: RedisClient, down_after_ms: int) -> Finding:
    """Check that a primary which is cut off stops to write before its successor grants."""
    settings: dict[Any, Any] = {**client.config_get("min-replicas-*")}
    least, lag_s = (int(settings.get(f"min-replicas-{name}", 0)) for name in ("to-write", "max-lag"))
    longest_s = down_after_ms // 1000 + _SLACK_S
    fix = f"Set min-replicas-to-write to 1 and min-replicas-max-lag to {longest_s} or less on all servers."
    if least < 1:
        return Finding(
            "warn", "a primary that is cut off from its replicas goes on granting (min-replicas-to-write)", fix
        )
    if lag_s > longest_s:
        what = f"a primary that is cut off goes on granting for {lag_s} s (min-replicas-max-lag), which is too long"
        return Finding("warn", what, fix)
    return Finding("ok", f"a primary that is cut off from its replicas grants for at most {lag_s + 1} s")


def _number(state: State, name: str) -> int:
    return int(state.get(name, 0))
