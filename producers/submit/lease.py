"""One submitter of a task at a time: a lease in Redis, renewed during the submission."""

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from dispatcher.model.errors import BeingSubmitted, FairlaneError, Unreachable
from dispatcher.model.view import SubmitLease
from dispatcher.wire.control import FORMAT, TakenOver
from dispatcher.wire.submission import Submission
from producers.ports import Services

_TAKEOVERS = 3
_RETRY_S = 0.5


class Lease:
    """The lease of one task.

    A submitter publishes a window only after it has seen, after the receipt of its announcement, that it still held the
    lease. A takeover is appended after the lease is taken, so it comes after that announcement, and the new submitter
    has read it.
    """

    def __init__(self, services: Services, task: str) -> None:
        self.submitter = secrets.token_hex(8)
        self._services = services
        self._task = task
        self._ended = threading.Event()
        self._taken = False

    def take(self, attempt: Callable[[], SubmitLease]) -> SubmitLease:
        """Try until no other submitter holds the lease. Raises BeingSubmitted if its holder renews it."""
        pace, clock = self._services.leases, self._services.clock
        began_s, first = clock.monotonic_s(), attempt()
        lease = first
        while lease.state == "held":
            if lease.until_ms > first.until_ms and clock.monotonic_s() - began_s >= pace.watch_s:
                raise _being_submitted(self._task, lease)
            time.sleep(pace.poll_s)
            lease = attempt()
        self._taken = True
        return lease

    def take_known(self) -> SubmitLease:
        """Take the lease of a task that already exists."""
        services = self._services
        return self.take(
            lambda: services.registry.submissions.hold_submission("take", self._task, self.submitter, services.who)
        )

    def take_over(self, since_ms: int) -> Submission:
        """Record in the control topic that the lease was taken at a time. Return the submission up to that record.

        Takeovers count in the order of leases, so a later time is chosen after Redis' clock was set back.
        """
        for _ in range(_TAKEOVERS):
            record = TakenOver(FORMAT, self._task, self.submitter, since_ms)
            known = self._services.known.submission_at(self._task, self._services.control.append(record))
            if known.ahead.submitter == self.submitter:
                return known
            self.check()
            since_ms = known.ahead.taken_ms + 1
        raise BeingSubmitted(f"Task {self._task} is being submitted by others.", "Submit it again in some seconds.")

    def keep(self) -> None:
        """Renew the lease in the background from now on."""
        self._services.renewals.add(self._renew, self._services.leases.renew_s)

    def check(self, *, wait: bool = True) -> None:
        """Return if the lease is still ours: everything appended before this call counts.

        Raises BeingSubmitted if it is not; Unreachable if Redis is away (wait: for longer than a submission waits).
        """
        self.confirm(self._asked(self._services.leases.redis_s if wait else 0.0))

    def confirm(self, lease: SubmitLease) -> None:
        """Check the result of a renewal."""
        if lease.state == "gone":
            self._take_again()
        elif lease.state == "held":
            raise taken_over(self._task, lease.who)

    def close(self, *, done: bool) -> None:
        """Stop renewing the lease. done: the task is sealed, which already ended the lease."""
        self._ended.set()
        self._services.renewals.remove(self._renew)
        if self._taken and not done:
            with suppress(FairlaneError):
                self._services.registry.submissions.hold_submission("release", self._task, self.submitter)

    def _asked(self, within_s: float) -> SubmitLease:
        began_s = time.monotonic()
        while True:
            try:
                return self._renew()
            except Unreachable:
                if time.monotonic() - began_s >= within_s or self._ended.wait(_RETRY_S):
                    raise

    def _take_again(self) -> None:
        """Take the lease as a new submitter after Redis was emptied; the topic shows that nobody came between.

        The new name is ours from then on only: a window that waits to be announced would count under it.
        """
        again = Lease(self._services, self._task)
        try:
            if again.take_over(again.take_known().since_ms).ahead.before != self.submitter:
                raise taken_over(self._task, "another process")
        except FairlaneError:
            again.close(done=False)
            raise
        self.submitter = again.submitter

    def _renew(self) -> SubmitLease:
        return self._services.registry.submissions.hold_submission("renew", self._task, self.submitter)


def _being_submitted(task: str, lease: SubmitLease) -> BeingSubmitted:
    since = datetime.fromtimestamp(lease.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return BeingSubmitted(
        f"Task {task} is being submitted by {lease.who} since {since}.",
        "Wait until that submission ends, or submit under another id.",
    )


def taken_over(task: str, who: str) -> BeingSubmitted:
    """Return the error for a submission whose task another one goes on with, or has completed."""
    return BeingSubmitted(
        f"This submission of task {task} was taken over by {who}: its process stalled for more than 5 s, or "
        "Redis was emptied.",
        "Submit the same task again after that submission ends: it then verifies the result.",
    )
