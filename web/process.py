"""The processes of the HTTP API: one, or several that accept from one socket."""

import asyncio
import gc
import logging
import socket
import sys
import threading
from contextlib import suppress
from multiprocessing.process import BaseProcess

from aiohttp import http_parser

from backends.settings import require_addresses
from backends.system_clock import SystemClock
from dispatcher.model.errors import FairlaneError, Refused, Unreachable
from dispatcher.model.shown import KNOWN, Secrets
from fairlane.logging import configure_logging, masked
from fairlane.settings import Settings
from fairlane.worker.process.process import allow_open_files, collect_rarely, watch_parent
from fairlane.worker.process.stop_signal import StopSignal, stop_on_signals
from fairlane.worker.process.supervisor import Supervisor, SupervisorSettings, spawned
from fairlane.worker.process.watchdog import EXIT_WITHIN_S, exit_within
from fairlane.worker.report.metrics import MetricsServer
from producers.desk.front_door import FrontDoor
from web.listening import ServerSettings, address_of, listening
from web.metrics import ApiFigures
from web.server import END_WITHIN_S, IDLE_WITHIN_S, serve

_log = logging.getLogger(__name__)


def run_servers(settings: Settings, server: ServerSettings) -> int:
    """Serve until a signal; return the exit code. Raises InvalidInput, NotConfigured, Refused, Unreachable."""
    server.check()
    check_parser()
    require_addresses(settings.pulsar, settings.redis)
    _log.info("Pulsar: %s", settings.pulsar.address.named())  # raises if the local stack's has ended
    stop = stop_on_signals()
    with listening(server) as listener:
        _log.info("listening at %s", address_of(server, listener))
        if server.processes == 1:
            _run(settings, server, listener, 0, stop)
            return 0

        def start(name: str) -> BaseProcess:
            number = names.index(name)
            return spawned(run_child, name, settings, server, listener, number, KNOWN)

        names = [f"api-{number}" for number in range(1, server.processes + 1)]
        limits = SupervisorSettings(drain_s=IDLE_WITHIN_S + END_WITHIN_S)
        return Supervisor(start, names, SystemClock(), limits).run(stop)


def run_child(
    settings: Settings, server: ServerSettings, listener: socket.socket, number: int, secrets: Secrets
) -> None:
    """Serve in a spawned process, which ends also when its supervisor has ended. number: its position among them."""
    KNOWN.join(secrets)
    sys.stderr = masked(sys.stderr)
    configure_logging(settings.log)
    stop = stop_on_signals()
    threading.Thread(target=watch_parent, args=(stop,), name="parent", daemon=True).start()
    try:
        _run(settings, server, listener, number, stop)
    except FairlaneError as error:
        _log.error("%s", error)
        sys.exit(error.exit_code)


def check_parser() -> None:
    """Raise Refused without aiohttp's parser in C: its parser in Python took requests that proxies read otherwise."""
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise Refused(
            "aiohttp has no parser in C on this machine.", "Unset AIOHTTP_NO_EXTENSIONS, or install a wheel of aiohttp."
        )


def _run(settings: Settings, server: ServerSettings, listener: socket.socket, number: int, stop: StopSignal) -> None:
    allow_open_files()
    collect_rarely()
    gc.freeze()  # what is imported by now lives as long as the process
    with FrontDoor(settings) as door:
        figures = ApiFigures(lambda: door.book.age_s)
        metrics = _metrics(server, number, figures)
        if number == 0 and server.offers_link:
            _print_link(server, listener, door)
        asyncio.run(serve(server, listener, door, figures, stop))
        exit_within(EXIT_WITHIN_S, 0)  # threads may wait for servers that do not answer
        if metrics is not None:
            metrics.close()


def _print_link(server: ServerSettings, listener: socket.socket, door: FrontDoor) -> None:
    """Print a link by which one signs in at the console without a key. It is a secret, and so in no log."""
    with suppress(Unreachable):
        link = f"{address_of(server, listener)}/sign-in/{door.sessions.offer()}"
        sys.stdout.write(f"Console (this link works once, within 10 minutes): {link}\n")
        sys.stdout.flush()


def _metrics(server: ServerSettings, number: int, figures: ApiFigures) -> MetricsServer | None:
    if server.metrics_port < 0:
        return None
    port = server.metrics_port and server.metrics_port + number
    metrics = MetricsServer(port, server.metrics_host, [figures])
    _log.info("metrics at http://%s:%d/metrics", server.metrics_host, metrics.port)
    return metrics
