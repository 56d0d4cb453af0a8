"""`fairlane registry rebuild` and `snapshot`: the jobs that workers do, without a worker."""

import secrets
import threading
import time
from collections.abc import Callable

from backends.redis.epochs import Epoch, Epochs
from backends.redis.view import CLAIM_MAX_MS
from backends.system_clock import SystemClock
from dispatcher.model.errors import FairlaneError, NotReady, Refused, Unreachable
from dispatcher.model.view_form import ViewRole, judge
from fairlane.settings import Settings
from fairlane.worker.connections import CLOSE_S, PulsarSide, RedisSide, opened_servers
from fairlane.worker.process.standby import raise_form
from fairlane.worker.process.threads import Threads
from fairlane.worker.shared_jobs import SharedJobs, snapshot_topics, snapshotter

Progress = Callable[[Epoch | None], None]
_POLL_S = 0.25


def rebuild(
    settings: Settings, progress: Progress, timeout_s: float, *, wipe: bool, full: bool = False, adopt: bool = False
) -> Epoch:
    """Empty the view if requested, and return when it is complete again. Running workers take part by themselves.

    full: delete snapshots first, so that everything is read.
    adopt: create the view here, although another Redis holds it.

    Raises Refused while workers of an older version run, or if another Redis holds the view and `adopt` is not set.
    Raises Unreachable, also when the view is not complete in time: the next worker, or the next call, continues.
    """
    with opened_servers(settings) as (redis, pulsar):
        judged = judge(redis.epochs.form(), redis.workers.workers())
        if judged.role is ViewRole.STAND_BY:
            raise Refused(f"The view cannot be rebuilt now: {judged.why}.")
        known = redis.epochs.epoch()
        claim_max_ms = max(CLAIM_MAX_MS, known.claim_ms if known else 0)
        owner = f"by-hand-{secrets.token_hex(3)}"
        jobs = SharedJobs(redis, pulsar, owner, SystemClock(), lambda: 1, claim_max_ms)
        if not adopt:
            jobs.rebuilder.check_home()
        if full:
            delete_snapshots(pulsar)
        jobs.rebuilder.announce_claims()
        if judged.role is ViewRole.REBUILD:
            raise_form(redis.epochs, settings.pulsar.outcome_partitions)
        elif adopt:
            _begin_adopted(redis, settings.pulsar.outcome_partitions, claim_max_ms)
        elif wipe:
            redis.view.wipe()
        over = threading.Event()
        threads = Threads(over)
        try:
            jobs.start(threads, housekeeping=False)
            return _await_ready(redis.epochs, over, progress, time.monotonic() + timeout_s)
        finally:
            threads.join(CLOSE_S)


def snapshot(settings: Settings) -> str:
    """Store a snapshot of the view now; return its number. Workers must run. Raises Unreachable, NotReady, Refused."""
    with opened_servers(settings) as (redis, pulsar):
        redis.epochs.check_form()
        number = snapshotter(redis, pulsar, lambda: True, SystemClock(), 0.0).take(threading.Event())
    if not number:
        raise NotReady("The view is not complete, so no snapshot was stored.", "See `fairlane registry status`.")
    return number


def delete_snapshots(pulsar: PulsarSide) -> None:
    """Delete all snapshots. Raises Unreachable."""
    snapshots = snapshot_topics(pulsar)
    for number in snapshots.numbers():
        snapshots.delete(number)


def _begin_adopted(redis: RedisSide, partitions: int, wait_ms: int) -> None:
    """Begin an empty view as that of the installation. A worker may begin one in between, which does not count."""
    while True:
        redis.view.wipe()
        if redis.epochs.begin_epoch(secrets.token_hex(8), wait_ms, partitions, restoring=True, adopted=True):
            return


def _await_ready(epochs: Epochs, over: threading.Event, progress: Progress, deadline_s: float) -> Epoch:
    """Wait until the view is complete. Raises Refused if another Redis holds the view."""
    while time.monotonic() < deadline_s:
        epoch = epochs.epoch()
        progress(epoch)
        if epoch is not None and epoch.foreign:
            epochs.check_home()
        if epoch is not None and epoch.ready:
            return epoch
        if over.wait(_POLL_S):
            raise FairlaneError("A part of the rebuild failed.", "Look at the messages above.")
    raise Unreachable("The view is not complete yet.", "Workers continue the rebuild: see `fairlane registry status`.")
