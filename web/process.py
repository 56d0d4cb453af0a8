"""The processes of the HTTP API: one, or several that share a port."""

import asyncio
import logging
import os
import sys
import threading
from functools import partial
from multiprocessing.process import BaseProcess

from backends.system_clock import SystemClock
from dispatcher.model.errors import FairlaneError
from dispatcher.model.shown import KNOWN, Secrets
from fairlane.logging import configure_logging, masked
from fairlane.settings import Settings
from fairlane.worker.process.process import allow_open_files, watch_parent
from fairlane.worker.process.stop_signal import StopSignal, stop_on_signals
from fairlane.worker.process.supervisor import Supervisor, SupervisorSettings, spawned
from producers.desk.front_door import FrontDoor
from web.server import END_S, ServerSettings, check_parser, serve

_log = logging.getLogger(__name__)


def run_servers(settings: Settings, server: ServerSettings) -> int:
    """Serve until a signal says stop; return the exit code. Raises InvalidInput, NotConfigured, Refused."""
    server.check()
    check_parser()
    stop = stop_on_signals()
    if server.processes == 1:
        return _run(settings, server, stop)

    def start(name: str) -> BaseProcess:
        return spawned(run_child, name, settings, server, KNOWN)

    names = [f"api-{number}" for number in range(1, server.processes + 1)]
    return Supervisor(start, names, SystemClock(), SupervisorSettings(drain_s=END_S)).run(stop)


def run_child(settings: Settings, server: ServerSettings, secrets: Secrets) -> None:
    """Serve in a spawned process, which ends also when its supervisor has ended."""
    KNOWN.join(secrets)
    sys.stderr = masked(sys.stderr)
    configure_logging(settings.log)
    stop = stop_on_signals()
    threading.Thread(target=partial(watch_parent, os.getppid(), stop), name="parent", daemon=True).start()
    sys.exit(_run(settings, server, stop))


def _run(settings: Settings, server: ServerSettings, stop: StopSignal) -> int:
    allow_open_files()
    try:
        with FrontDoor(settings) as door:
            asyncio.run(serve(server, door, stop))
    except FairlaneError as error:
        _log.error("%s", error)
        return error.exit_code
    return 0
