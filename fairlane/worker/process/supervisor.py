"""`--processes N` of `fairlane worker` and `fairlane api`: a parent keeps N processes alive and passes on stop signals.

Processes are spawned, never forked: the Pulsar client's threads do not survive a fork.
"""

import logging
import multiprocessing
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

from dispatcher.clock import Clock
from dispatcher.model.errors import Hung, InvalidInput
from dispatcher.retry import Backoff

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SupervisorSettings:
    """Time limits of the supervisor."""

    drain_s: float
    """How long the processes may take to finish what they have begun."""
    kill_after_s: float = 10.0
    """Added to it before SIGKILL."""
    backoff: Backoff = Backoff(0.5, 30.0)
    """Before a process that died is started again."""
    steady_s: float = 60.0
    """A process that lived for this long resets the waits."""


class _Member:
    """One slot of the group, and the process that now fills it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: BaseProcess | None = None
        self.started_s = 0.0
        self.due_s = 0.0
        self.wait_s = 0.0


class Supervisor:
    """Keeps a number of processes alive. `start` creates the process of a name without starting it."""

    def __init__(
        self, start: Callable[[str], BaseProcess], names: Sequence[str], clock: Clock, settings: SupervisorSettings
    ) -> None:
        self._start = start
        self._members = [_Member(name) for name in names]
        self._clock = clock
        self._settings = settings

    def run(self, stop: threading.Event) -> int:
        """Run until `stop` is set or a process finds its settings wrong; then stop all.

        Returns 0 if every process drained in time, else 1; after wrong settings, the exit code of InvalidInput.
        """
        while not stop.is_set():
            for member in self._members:
                if self._has_wrong_settings(member):
                    self._stop_all()
                    return InvalidInput.exit_code
                self._tend(member)
            stop.wait(0.2)
        return self._stop_all()

    def _has_wrong_settings(self, member: _Member) -> bool:
        """Return whether a process ended because of its settings, which another start would read again."""
        if member.process is None or member.process.exitcode != InvalidInput.exit_code:
            return False
        _log.error(
            "process %s ended (exit code %d): its settings are wrong; stopping all", member.name, InvalidInput.exit_code
        )
        return True

    def _tend(self, member: _Member) -> None:
        process = member.process
        if process is not None and process.is_alive():
            return
        if process is not None:
            process.join()
            self._note_end(member, f"ended ({_reason(process.exitcode)})")
        if self._clock.monotonic_s() >= member.due_s:
            self._start_process(member)

    def _start_process(self, member: _Member) -> None:
        process, member.started_s = self._start(member.name), self._clock.monotonic_s()
        try:
            process.start()
        except OSError as error:  # too many processes, or no memory: the others go on
            self._note_end(member, f"cannot be started ({error})")
        else:
            member.process = process

    def _note_end(self, member: _Member, what: str) -> None:
        now_s = self._clock.monotonic_s()
        steady = now_s - member.started_s >= self._settings.steady_s
        member.wait_s = self._settings.backoff.after(0 if steady else member.wait_s)
        member.due_s = now_s + member.wait_s
        member.process = None
        _log.error("process %s %s; starting it again in %.1f s", member.name, what, member.wait_s)

    def _stop_all(self) -> int:
        alive = [member.process for member in self._members if member.process is not None]
        for process in alive:
            process.terminate()
        deadline_s = self._clock.monotonic_s() + self._settings.drain_s + self._settings.kill_after_s
        for process in alive:
            process.join(max(0.0, deadline_s - self._clock.monotonic_s()))
        late = [process for process in alive if process.is_alive()]
        for process in late:
            _log.error("process %s did not stop in time; killing it (claims end by themselves)", process.name)
            process.kill()
            process.join()
        # A process that ends by the signal had not begun to listen to it: it was starting, and held nothing.
        return 0 if all(process.exitcode in (0, -signal.SIGTERM) for process in alive) else 1


def _reason(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"killed by signal {-exit_code}: {signal.strsignal(-exit_code)}"
    return f"exit code {exit_code}{': a part of it hung' if exit_code == Hung.exit_code else ''}"


def spawned(target: Callable[..., None], name: str, *args: object) -> BaseProcess:
    """Return a process with a fresh interpreter, not yet started."""
    return multiprocessing.get_context("spawn").Process(target=target, name=name, args=args)
