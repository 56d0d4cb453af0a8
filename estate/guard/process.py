"""A guard as a process: everything that it needs, opened from the settings and closed in order."""

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial

from backends.redis.guard_states import GUARD_JOB, GuardStates
from backends.redis.view import RedisView, open_view
from backends.redis.workers import JobLocks
from backends.settings import require_addresses
from backends.system_clock import SystemClock
from consumers.upkeep.jobs import HeldJobs, JobLockSettings
from estate.capture import take_capture
from estate.facts.bookie_switch import BookieSwitch
from estate.facts.look import estate_reader, judge_settings, look_at
from estate.facts.node_probes import BookieProbe, BrokerProbe
from estate.facts.questions import Depth
from estate.guard.actions import NodeActions
from estate.guard.drains import BrokerDrainer
from estate.guard.guard import Guard, GuardPorts, GuardSettings
from estate.guard.incident_watch import IncidentWatch
from estate.guard.metrics import GuardCollector
from estate.guard.probes import NodeProbe, ProbeFigures, Probes
from estate.rules.cluster import Estate
from estate.rules.node_life import NodeKind, NodeRecord
from fairlane.settings import Settings
from fairlane.worker.report.metrics import MetricsServer

_log = logging.getLogger(__name__)

ELECTION = JobLockSettings(ttl_s=3.0, period_s=0.5)
"""A killed guard is followed by another one after at most 3.75 s: these two, and a look at the election."""
BROKER_PROBE_S = 1.0
BOOKIE_PROBE_S = 0.1
"""A bookie that stops for 0.4 s again and again is caught by nearly every stop. Only isolated ones are probed."""
_LEAVE_S = 1.0
"""How long the end waits for a look at lanes that is under way; a broker may hang."""


class NodeProbes(Probes):
    """Probes every broker, and the bookies that are out of service."""

    def __init__(self, settings: Settings, record: ProbeFigures) -> None:
        super().__init__(record, SystemClock())
        self._settings = settings

    def follow(self, estate: Estate, nodes: Mapping[str, NodeRecord]) -> None:
        """Probe the nodes of a look. Those of a kind that could not be listed are probed on."""
        wanted: dict[str, tuple[Callable[[], NodeProbe], float]] = {}
        for node in nodes.values():
            if node.state == "gone":
                continue
            if node.kind is NodeKind.BROKER:
                alone = len(estate.brokers) == 1
                make = partial(BrokerProbe, self._settings.pulsar, node.name, alone=alone)
                wanted[node.key] = make, BROKER_PROBE_S
            elif node.out_of_service and self._settings.estate.bookie_http is not None:
                template = self._settings.estate.bookie_http
                wanted[node.key] = partial(BookieProbe, template, node.name), BOOKIE_PROBE_S
        self.follow_only(wanted)


def guard_name() -> str:
    """Return a name that no other guard has, also where all processes have the same number."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def run_guard(settings: Settings, stop: threading.Event, *, acts: bool, metrics_port: int) -> None:
    """Guard the estate until `stop` is set. metrics_port: 0 for any, -1 for none.

    Raises NotConfigured, InvalidInput, and Unreachable if Redis cannot be reached at the start.
    """
    require_addresses(settings.pulsar, settings.redis)
    with ExitStack() as opened:
        view = opened.enter_context(closing(open_view(settings.redis)))
        view.ping()
        view.scripts.check()
        figures = ProbeFigures()
        name, clock = guard_name(), SystemClock()
        jobs = HeldJobs(JobLocks(view), [GUARD_JOB], name, clock, lambda: 1, ELECTION)
        take = partial(take_capture, settings, clock=clock)
        watch = opened.enter_context(closing(IncidentWatch(settings, view, clock, take)))
        ports = _ports(settings, view, figures, partial(jobs.held, GUARD_JOB), watch, stop, opened)
        judge = judge_settings(settings.estate)
        guard = Guard(ports, GuardSettings(name=name, judge=judge, look_s=settings.estate.look_s, acts=acts))
        if metrics_port >= 0:
            server = MetricsServer(metrics_port, settings.worker.metrics_host, [GuardCollector(guard, figures)])
            opened.callback(server.close)
            _log.info("guard %s serves metrics on port %s", name, server.port)
        left = threading.Event()
        election = threading.Thread(target=jobs.run, args=(left,), name="election", daemon=True)
        watching = threading.Thread(target=watch.run, args=(left, lambda: guard.elected), name="incidents", daemon=True)
        election.start()
        watching.start()
        try:
            guard.run(stop)
        finally:
            left.set()
            election.join()
            watching.join(_LEAVE_S)


def _ports(
    settings: Settings,
    view: RedisView,
    figures: ProbeFigures,
    held: Callable[[], bool],
    watch: IncidentWatch,
    stop: threading.Event,
    opened: ExitStack,
) -> GuardPorts:
    template = settings.estate.bookie_http
    switch = None if template is None else opened.enter_context(closing(BookieSwitch(template)))
    reader = opened.enter_context(closing(estate_reader(settings)))
    drains = BrokerDrainer(settings)
    return GuardPorts(
        look=lambda: look_at(settings, reader, Depth.SETTINGS),
        probes=NodeProbes(settings, figures),
        has_bundles=drains.has_bundles,
        states=GuardStates(view),
        held=held,
        actions=NodeActions(switch, drains.drain, lambda: held() and not stop.is_set()),
        capture=watch.report,
        clock=SystemClock(),
    )
