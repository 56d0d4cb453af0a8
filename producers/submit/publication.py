"""Publish the windows of an audience, each once its announcement is stored and the lease is still held."""

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import msgspec

from dispatcher.model.errors import Unreachable
from dispatcher.model.task_control import Control
from dispatcher.wire.control import FORMAT, Announced, TaskRecord
from dispatcher.wire.topics import OWN_LANE_ABOVE, RETRY_STEPS_S
from producers.ports import LaneWriter, Services
from producers.submit.checkpoints import Checkpointer
from producers.submit.intake import Intake
from producers.submit.lease import Lease
from producers.submit.windows import Window, WindowCutter

_HELP_S: Final = 0.003
"""How often the helper looks."""
_IDLE_S: Final = 0.025
"""How often it looks when nothing has come for a second: 300 looks a second take 3 % of a core."""
_AWAITED_S: Final = 0.003
"""An audience that is awaited for less comes at full speed: short windows would only cost time."""


class Publication:
    """Publishes one window while the next is announced; no more than two are kept. One thread at a time.

    The windows of a trial send go to a retry lane. Nothing else of the task is sent before its go, so no worker holds
    the task's own lane until then.

    stopped: why the task takes no more targets, or empty.
    """

    def __init__(self, services: Services, record: TaskRecord, lease: Lease, base: int) -> None:
        """record: names the lane its envelopes go to now. base: the first sequence to be published."""
        self._services = services
        self._record = record
        self._lease = lease
        self._base = base
        self._pool: ThreadPoolExecutor | None = None
        self._announcing: deque[tuple[Window, Future[None]]] = deque()
        self.announced = threading.Event()
        """Set whenever a window may be published."""
        self._writer: LaneWriter | None = None
        self._checkpoints: Checkpointer | None = None
        self._in_trial = False

    @property
    def stopped(self) -> str:
        return self._checkpoints.stopped if self._checkpoints is not None else ""

    def open(self, window: Window) -> None:
        """Open the lane that a window goes to."""
        self._in_trial = window.targets <= self._record.first
        self._writer = self._services.lanes.open(self._record_of_lane())
        self._checkpoints = Checkpointer(self._services, self._writer, self._record.task, self._base)

    def put(self, window: Window) -> None:
        """Announce a window, to publish it later. Raise errors of earlier announcements and publications."""
        stored = Future[None]()
        if window.announced:
            stored.set_result(None)
        else:
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="announce")
            stored = self._pool.submit(self._announce, window)
            stored.add_done_callback(lambda _: self.announced.set())
        self._announcing.append((window, stored))
        while len(self._announcing) > 1:
            self._publish_next()
        self.advance()

    def advance(self) -> None:
        """Publish the windows announced by now."""
        while self._announcing and self._announcing[0][1].done() and not self.stopped:
            self._publish_next()

    def finish(self) -> None:
        """Return when all windows are published and stored."""
        while self._announcing and not self.stopped:
            self._publish_next()
        if self._writer is not None and not self.stopped:
            self._writer.flush()

    def close(self) -> None:
        """Close the lane; messages not stored by now may still be stored."""
        if self._checkpoints is not None:
            self._checkpoints.finish()
        if self._writer is not None:
            self._writer.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _announce(self, window: Window) -> None:
        announced = Announced(
            format=FORMAT,
            task=self._record.task,
            submitter=self._lease.submitter,
            first=window.first,
            targets=window.targets,
            refused=window.refused,
            digest=window.digest,
        )
        self._services.control.append(announced)
        self._lease.check()

    def _publish_next(self) -> None:
        window, stored = self._announcing.popleft()
        stored.result()
        if self._record.shared and window.targets > OWN_LANE_ABOVE:
            self._leave_shared_lane(window)
        elif self._in_trial and window.targets > self._record.first:
            self._reopen(window)
        if self._writer is None:
            self.open(window)
        assert self._writer is not None
        assert self._checkpoints is not None
        for bodies in window.bodies:
            self._writer.send_many(bodies)
        if self._checkpoints.due(window.sequence):
            self._checkpoints.store(window.sequence, window.targets, window.refused, window.digest)

    def _leave_shared_lane(self, window: Window) -> None:
        """Move the task to a lane of its own, because it is larger than expected.

        Other tasks of the shared lane must not wait for it. Workers that find its envelopes in the shared lane move
        them.
        """
        services, task, lane = self._services, self._record.task, self._services.topics.own_lane(self._record.task)
        services.lanes.create(lane, 0)
        change = Control("lane", lane).record(task, services.clock.wall_ms())
        position = services.control.append(change)
        with suppress(Unreachable):  # only the view: workers update it from the control topic
            services.registry.control.apply(position, change)
        self._record = msgspec.structs.replace(self._record, lane=lane, shared=False, partitions=0)
        self._reopen(window)

    def _record_of_lane(self) -> TaskRecord:
        """Return the record with the lane that the present windows go to."""
        if not self._in_trial:
            return self._record
        lane = self._services.topics.retry_lane(self._record.tier, RETRY_STEPS_S[0])
        return msgspec.structs.replace(self._record, lane=lane, partitions=0)

    def _reopen(self, window: Window) -> None:
        """Go on in the lane to which a window belongs, once everything before it is stored."""
        if self._writer is not None and self._checkpoints is not None:
            self._writer.flush()
            self._checkpoints.finish()
            self._writer.close()
        self._base = window.first_sequence
        self.open(window)


class Helper:
    """Continues the publication while the audience is awaited: publishes what has come so far, in short windows."""

    def __init__(self, intake: Intake, windows: WindowCutter, publication: Publication) -> None:
        self._intake = intake
        self._windows = windows
        self._publication = publication
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="audience-helper", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Stop the thread and wait until it has ended."""
        self._ended.set()
        self._publication.announced.set()
        self._thread.join()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while not self._ended.is_set() and self._error is None:
            self._publication.announced.wait(self._rest_s())
            self._publication.announced.clear()
            if self._intake.working.acquire(blocking=False):
                try:
                    if not self._ended.is_set():
                        self._help()
                except BaseException as error:  # the audience's thread raises it
                    self._error = error
                finally:
                    self._intake.working.release()

    def _rest_s(self) -> float:
        return _HELP_S if self._windows.age_s() < 1 else _IDLE_S

    def _help(self) -> None:
        if self._windows.may_close() and self._intake.awaited_s() >= _AWAITED_S:
            early = self._intake.early()
            for window in self._windows.add(early) if early is not None else ():
                self._publication.put(window)
            for window in self._windows.close_early():
                self._publication.put(window)
        self._publication.advance()
