"""Checks before a worker starts, and every second while it serves, whether it may serve the present view."""

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from backends.redis.view import CLAIM_MAX_MS, open_view
from backends.redis.workers import Workers
from backends.system_clock import SystemClock
from dispatcher.model.errors import FairlaneError, NotReady, Refused, Unreachable
from dispatcher.model.view import WorkerBeat
from dispatcher.model.view_form import FORM, ViewDecision, ViewRole, judge
from fairlane import __version__
from fairlane.settings import Settings
from fairlane.worker.report.metrics import MetricsServer, ServiceCollector, serve_metrics
from fairlane.worker.report.service_view import ServiceView

_log = logging.getLogger(__name__)
_PERIOD_S, _REBUILT_S = 1.0, 0.05
_SAY_AGAIN_S = 60.0


def raise_form(views: Epochs, partitions: int) -> None:
    """Rebuild a view of an older form in this version's form.

    Nothing is granted before the claims of the old view have ended. Two workers may do this at once.
    """
    epoch = views.epoch()
    if epoch is not None and epoch.form < FORM:
        views.begin_epoch(secrets.token_hex(8), CLAIM_MAX_MS, partitions, restoring=True, replaces=epoch.id)


class Standby:
    """Waits until the view may be served, without lanes or jobs, and reports that in heartbeats and in the log."""

    def __init__(
        self,
        views: Epochs,
        beats: Workers,
        name: str,
        partitions: int,
        metrics: Callable[[], MetricsServer | None] = lambda: None,
    ) -> None:
        """Set up a standby.

        `metrics`: served while it waits. A rollout waits for that before it stops the older workers.
        """
        self._serve_metrics = metrics
        self._metrics: MetricsServer | None = None
        self._views = views
        self._beats = beats
        self._name = name
        self._partitions = partitions
        self._started_ms = 0
        self._logged_s = float("-inf")

    def wait(self, stop: threading.Event) -> bool:
        """Wait until the view may be served. Return False if `stop` is set first.

        Raises Unreachable if Redis is gone at the start, but not later; Refused if another Redis holds the view.
        """
        judged = self._judge()
        while judged.role is not ViewRole.SERVE and not stop.is_set():
            if judged.role is ViewRole.STAND_BY:
                self._say(judged.why)
            stop.wait(_PERIOD_S if judged.role is ViewRole.STAND_BY else _REBUILT_S)
            try:
                judged = self._judge()
            except Unreachable as error:
                judged = ViewDecision(ViewRole.STAND_BY, error.cause)
        self._leave()
        return not stop.is_set()

    def _judge(self) -> ViewDecision:
        self._views.check_home()
        judged = judge(self._views.form(), self._beats.workers())
        if judged.role is ViewRole.STAND_BY:
            if not self._started_ms:
                self._metrics = self._serve_metrics()
            self._beat("standby")
        elif judged.role is ViewRole.REBUILD:
            _log.warning("%s", judged.why)
            raise_form(self._views, self._partitions)
        return judged

    def _leave(self) -> None:
        if self._metrics is not None:
            self._metrics.close()
        if self._started_ms:
            try:
                self._beat("stopped")
            except Unreachable as error:
                _log.debug("the heartbeat cannot be stored: %s", error)

    def _say(self, why: str) -> None:
        if time.monotonic() - self._logged_s >= _SAY_AGAIN_S:
            self._logged_s = time.monotonic()
            _log.warning("on standby, serving nothing: %s", why)

    def _beat(self, state: str) -> None:
        beat = WorkerBeat(
            id=self._name,
            host=socket.gethostname(),
            pid=os.getpid(),
            state=state,
            started_ms=self._started_ms,
            seen_ms=0,
            version=__version__,
            form=FORM,
        )
        now_ms = self._beats.beat(beat)
        self._started_ms = self._started_ms or now_ms


def stand_by(settings: Settings, name: str, stop: threading.Event) -> bool:
    """Wait until a worker of this version may serve. Return False if `stop` is set first. Raises Unreachable."""
    with closing(open_view(settings.redis)) as view:
        epochs, workers = Epochs(view), Workers(view)
        service = ServiceCollector(ServiceView(Registry(view), epochs, workers, SystemClock()))
        metrics = partial(serve_metrics, settings.worker, service)
        return Standby(epochs, workers, name, settings.pulsar.outcome_partitions, metrics).wait(stop)


class FormWatch:
    """Checks every second whether the view may still be served.

    The scripts of this version grant and fold nothing in a view of a higher form, so nothing is done in it before the
    check, either.
    """

    def __init__(self, views: Epochs) -> None:
        self.closed = threading.Event()
        """Set when the worker must leave."""
        self.exit_code = NotReady.exit_code
        """The exit code with which it leaves."""
        self._views = views

    def run(self, stop: threading.Event) -> None:
        """Return when `stop` is set, or the worker must leave."""
        while not stop.wait(_PERIOD_S) and not self.closed.is_set():
            try:
                self.check()
            except Refused as error:
                _log.error("this worker stops: %s", error)
                self.exit_code = error.exit_code
                self.closed.set()
            except FairlaneError as error:
                level = logging.DEBUG if isinstance(error, Unreachable) else logging.ERROR
                _log.log(level, "the form of the view cannot be read: %s", error)

    def check(self) -> None:
        """Check once. Raises Unreachable, and Refused if another Redis holds the view."""
        self._views.check_home()
        judged = judge(self._views.form(), [])
        if judged.role is not ViewRole.SERVE:
            _log.error("this worker stops, and will be on standby when it is started again: %s", judged.why)
            self.closed.set()
