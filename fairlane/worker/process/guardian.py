"""The last resort: a small process beside each worker, which ends it when its watchdog stops moving.

A call into C that keeps the interpreter's lock stops every Python thread, the watchdog among them. `faulthandler` could
end such a process from its own thread, but it uses the clock: in a test with a process that was stopped (SIGSTOP) for
longer than its timeout, it ended that process as soon as it woke (10 of 10). The guardian counts its own ticks, except
those in which the worker is stopped.

This file is run as a script (`python -I -S`), so it imports only small standard modules at the top.
"""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable

SILENT_S = 60.0
"""How long a worker may be silent; its watchdog signals every second."""
TICK_S = 1.0
DUMP_S = 5.0
"""How long the worker has to write the stacks of its threads before it is killed."""
_STOPPED = "Tt"
"""The state of a process that is stopped, or stopped by a debugger (proc_pid_stat(5))."""


def start_guardian() -> Callable[[], None]:
    """Start the guardian of this process; return the function that signals it. It ends with this process."""
    import faulthandler
    import logging
    import subprocess

    if sys.platform != "linux":  # elsewhere the guardian could not detect a stopped process
        return lambda: None
    if os.getpid() == 1:
        _let_abort_end_process_1()
    faulthandler.enable(file=2)  # writes the stacks at SIGABRT, without the interpreter's lock
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(SILENT_S)]
    try:
        guardian = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    except OSError as error:
        logging.getLogger(__name__).warning(
            "The guardian process could not be started, so nothing ends this worker if a C call hangs: %s.", error
        )
        return lambda: None
    assert guardian.stdin is not None
    sign = guardian.stdin.fileno()
    os.set_blocking(sign, False)

    def give_sign() -> None:
        try:
            os.write(sign, b".")
        except OSError:
            guardian.poll()  # it has ended, or has not read for hours; the worker does not depend on it

    return give_sign


def _let_abort_end_process_1() -> None:
    """Let SIGABRT end process 1.

    In a container the kernel drops every signal for which process 1 has no handler, SIGKILL too. faulthandler calls the
    previous handler: `_exit`, with the signal's number.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal.restype = ctypes.c_void_p
    libc.signal(signal.SIGABRT, ctypes.cast(libc._exit, ctypes.c_void_p))


def main(worker: int, silent_s: float) -> None:
    """Return when the worker has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # they are for the worker, which may take its time to leave
    if _falls_silent(worker, silent_s):
        say(f"The worker process {worker} has made no progress for {silent_s:g} s: ending it. Its stacks follow.\n")
        os.kill(worker, signal.SIGABRT)
        select.select([0], [], [], DUMP_S)
        if os.getppid() == worker:
            os.kill(worker, signal.SIGKILL)


def _falls_silent(worker: int, silent_s: float) -> bool:
    """Wait until the worker has ended (return False) or was silent for too many ticks (return True)."""
    ticks = 0
    while os.getppid() == worker:
        if ticks * TICK_S > silent_s:
            return True
        if not select.select([0], [], [], TICK_S)[0]:
            ticks += not _is_stopped(worker)
        elif os.read(0, 4096):
            ticks = 0
        else:
            break
    return False


def say(text: str) -> None:
    """Write to stderr, unless nobody reads it: that may be why the worker hangs."""
    with contextlib.suppress(OSError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, text.encode())


def _is_stopped(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:  # noqa: PTH123  # pathlib would take 2 MB
            stat = file.read()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in _STOPPED


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
