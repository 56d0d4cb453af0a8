"""Heartbeats of the workers, the times without any worker, and the locks of jobs that one worker does for all."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from backends.redis.client import pairs
from backends.redis.view import ViewPart
from dispatcher.analysis.task_times import TimeSpan
from dispatcher.model.errors import DECODING_ERRORS
from dispatcher.model.view import SUSPECT_MS, WorkerBeat
from dispatcher.model.view_form import GONE

BEAT_KEPT_S = 60.0
"""How long a heartbeat is kept, so that a lost worker remains visible."""
LOST_MS = 10_000

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WorkerBeat).decode


class Workers(ViewPart):
    """Stores and reads heartbeats. Every method raises Unreachable if Redis cannot be reached."""

    def beat(self, beat: WorkerBeat, kept_s: float = BEAT_KEPT_S) -> int:
        """Store a heartbeat and return when it was seen, in Redis' time (ms)."""
        serves = ["", *(beat.channels or ())] if beat.is_live else []
        return int(self._view.call("beat", beat.id, _encode(beat), round(kept_s * 1000), beat.started_ms, *serves))

    def absences(self, channel: str = "") -> list[TimeSpan]:
        """Return the spans of time (ms) in which no worker served the channel; without a channel, those without any
        worker. None are known before the first heartbeat of a view."""
        names = [f"{name}:{channel}" for name in ("first", "last", "gaps")]
        keys = self._view.keys
        now_ms, ((known, first, last, gaps), (epoch, is_first)) = self._view.commands(
            ("HMGET", keys.served, "first:", *names), ("HMGET", keys.epoch, "id", "first")
        )
        if known is None and epoch is not None:
            return []
        before = TimeSpan(0 if epoch is None or is_first == b"1" else int(known), int(first or now_ms))
        spans = [before, *_spans(gaps)]
        return [*spans, TimeSpan(int(last), now_ms)] if last and now_ms - int(last) > SUSPECT_MS else spans

    def outages(self) -> list[TimeSpan]:
        """Return the spans of time (ms) in which no worker reached Redis, and the last span in which nothing was
        granted because Redis had been restarted or emptied."""
        keys = self._view.keys
        _, (gaps, waited) = self._view.commands(
            ("HGET", keys.served, "outages"), ("HMGET", keys.epoch, "waits_from_ms", "grants_after_ms")
        )
        return [*_spans(gaps), *([TimeSpan(*map(int, waited))] if all(waited) else [])]

    def workers(self) -> list[WorkerBeat]:
        """Return all present and recent workers by id."""
        now_ms, *rows = self._view.call("read_workers")
        return judged_beats(rows, now_ms)


def judged_beats(rows: Sequence[Any], now_ms: int) -> list[WorkerBeat]:
    """Parse heartbeats as scripts return them: when each was seen (Redis' time), and its body. Return them by id.

    A worker not seen for 3 s is `suspect`, after 10 s `lost`, unless it reported that it stopped. Lost and stopped
    workers have rate 0.
    """
    beats = [_judged(_decoded(body), seen_ms, now_ms) for seen_ms, body in pairs(rows)]
    return sorted(beats, key=lambda beat: beat.id)


def _spans(gaps: bytes | None) -> list[TimeSpan]:
    return [TimeSpan(*map(int, gap.split("-"))) for gap in (gaps or b"").decode().split()]


def _decoded(body: bytes) -> WorkerBeat:
    """Parse a heartbeat. A heartbeat that cannot be read counts as a worker without a version."""
    try:
        return _decode(body)
    except DECODING_ERRORS:
        return WorkerBeat(id="unreadable", host="", pid=0, state="serving", started_ms=0, seen_ms=0, version="")


def _judged(beat: WorkerBeat, seen_ms: int, now_ms: int) -> WorkerBeat:
    state = beat.state
    if state != "stopped" and now_ms - seen_ms > SUSPECT_MS:
        state = "lost" if now_ms - seen_ms > LOST_MS else "suspect"
    rate = 0.0 if state in GONE else beat.rate
    return msgspec.structs.replace(beat, state=state, rate=rate, seen_ms=seen_ms)


class JobLocks(ViewPart):
    """Takes, renews and releases the locks. Every method raises Unreachable if Redis cannot be reached."""

    def hold(
        self, names: Sequence[str], owner: str, ttl_ms: int, limit: int, overdue: Collection[str]
    ) -> dict[str, str]:
        """Renew the owner's locks and take free ones, in one atomic call. Return the owner of each lock held, by name.

        Free locks are taken in the order of `names` until the owner holds `limit`; those in `overdue` are taken
        regardless of the limit.
        """
        answer = self._view.call("hold_job_locks", owner, ttl_ms, limit, len(names), *names, *overdue)
        return {name.decode(): holder.decode() for name, holder in pairs(answer)}

    def release(self, names: Sequence[str], owner: str) -> None:
        """Release those of the named locks that the owner holds."""
        self._view.call("release_job_locks", owner, *names)
