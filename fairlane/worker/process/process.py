"""A worker as a process: its signals, its log, its exit code; alone or as one of several under a supervisor."""

import gc
import logging
import multiprocessing
import os
import resource
import socket
import sys
import threading
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from backends.settings import require_addresses
from backends.system_clock import SystemClock
from dispatcher.model.errors import FairlaneError, Hung
from dispatcher.model.shown import KNOWN, Secrets
from fairlane.logging import configure_logging, masked
from fairlane.public_names import hidden_package
from fairlane.settings import Settings
from fairlane.worker.process.stop_signal import stop_on_signals

MAX_OPEN_FILES = 65_536
_log = logging.getLogger(__name__)


def run_workers(settings: Settings) -> int:
    """Run one worker in this process, or several under a supervisor; return the exit code when all have left.

    Raises Shadowed, NotConfigured, and Unreachable if a server of the local stack has ended.
    """
    if hidden := hidden_package():
        raise hidden
    require_addresses(settings.pulsar, settings.redis)
    _log.info(
        "Pulsar: %s, %s; Redis: %s",
        settings.pulsar.address.named(),
        settings.pulsar.admin_address.named(),
        settings.redis.address.named(),
    )
    with suppress(FileNotFoundError):  # a deleted directory has no modules
        here = str(Path.cwd())  # a channel's `module:Class` may be in the directory where the worker is started
        if here not in sys.path:
            sys.path.append(here)
    stop = stop_on_signals()
    if settings.worker.processes == 1:
        return _run_one(settings, settings.worker.name, stop)
    from fairlane.worker.process.supervisor import Supervisor, SupervisorSettings, spawned

    base = settings.worker.name or f"{socket.gethostname()}-{os.getpid()}"
    names = [f"{base}-{number}" for number in range(1, settings.worker.processes + 1)]
    first_port = settings.worker.metrics_port
    ports = {name: first_port + index if first_port > 0 else first_port for index, name in enumerate(names)}

    def start(name: str) -> BaseProcess:
        worker = settings.worker.model_copy(update={"metrics_port": ports[name]})
        return spawned(run_child, name, settings.model_copy(update={"worker": worker}), name, KNOWN)

    limits = SupervisorSettings(drain_s=settings.worker.drain_timeout_s)
    return Supervisor(start, names, SystemClock(), limits).run(stop)


def run_child(settings: Settings, name: str, secrets: Secrets) -> None:
    """Run a worker in a spawned process. It drains, too, when its supervisor has ended."""
    KNOWN.join(secrets)
    sys.stderr = masked(sys.stderr)
    configure_logging(settings.log)
    stop = stop_on_signals()
    threading.Thread(target=watch_parent, args=(stop,), name="parent", daemon=True).start()
    sys.exit(_run_one(settings, name, stop))


def _run_one(settings: Settings, name: str | None, stop: threading.Event) -> int:
    collect_rarely()
    allow_open_files()
    from fairlane.worker.process.standby import stand_by
    from fairlane.worker.process.watchdog import EXIT_WITHIN_S, exit_within
    from fairlane.worker.worker import Worker, worker_id

    gc.freeze()  # what is imported by now lives as long as the process
    try:
        if not stand_by(settings, worker_id(name), stop):
            return 0
        code = Worker(settings, name, SystemClock()).run(stop)
    except FairlaneError as error:
        _log.error("%s", error)
        code = error.exit_code
    exit_within(EXIT_WITHIN_S, code)  # the interpreter waits for threads that others have started
    if code == Hung.exit_code:  # end the process without waiting for any thread
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    return code


def allow_open_files() -> None:
    """Raise the soft limit of open files as far as the hard one allows.

    It is 1,024 on most systems. An app of `fcm` has three files, and up to ten connections while it sends.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def collect_rarely() -> None:
    """Let the garbage collector run rarely.

    Envelopes are lists of very many targets, and none is part of a cycle. With the interpreter's default thresholds the
    search for cycles among them took a sixth of a busy worker's time, and a tenth of the time of its imports.
    """
    gc.set_threshold(100_000, 20, 100)


def watch_parent(stop: threading.Event) -> None:
    """Set `stop` once the process that started this one has ended, also if that was before this one had begun."""
    parent = multiprocessing.parent_process()
    while not stop.wait(1.0):
        if parent is None or os.getppid() != parent.pid:
            _log.warning("the supervisor is gone; draining")
            stop.set()
