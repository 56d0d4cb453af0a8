"""The guardian ends a process that is silent, and neither one that gives signs nor one that was stopped."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairlane.cli.base import exit_codes

WORKER = """
import ctypes, time
from fairlane.worker.process import guardian
guardian.SILENT_S = 1
give_sign = guardian.start_guardian()
print("guarded", flush=True)
for _ in range({signs}):
    give_sign()
    time.sleep(0.1)
if {hangs}:
    ctypes.PyDLL(None).sleep(60)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which processes are stopped")


@contextmanager
def worker(*before: str, signs: int, hangs: bool) -> Iterator["subprocess.Popen[str]"]:
    script = WORKER.format(signs=signs, hangs=hangs)
    pipe = subprocess.PIPE
    process = subprocess.Popen([*before, sys.executable, "-c", script], stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "guarded\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_process_that_falls_silent_is_ended_and_its_stacks_are_written() -> None:
    with worker(signs=1, hangs=True) as process:
        _, stderr = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGABRT
    assert f"The worker process {process.pid} has made no progress for 1 s: ending it." in stderr
    assert 'File "<string>", line 11 in <module>' in stderr


def test_the_first_process_of_a_container_is_ended_too() -> None:
    """The kernel keeps from it the signals that it has no handler for."""
    container = ("unshare", "--pid", "--fork", "--mount-proc")
    if not shutil.which("unshare") or subprocess.run([*container, "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not make a namespace of processes here")
    with worker(*container, signs=1, hangs=True) as process:
        _, stderr = process.communicate(timeout=30)
        assert process.returncode == exit_codes.HUNG
    assert 'File "<string>", line 11 in <module>' in stderr


def test_a_process_that_gives_signs_ends_by_itself_and_its_guardian_with_it() -> None:
    with worker(signs=25, hangs=False) as process:
        _, stderr = process.communicate(timeout=30)  # the guardian's stderr is the same pipe, closed when both end
        assert (process.returncode, stderr) == (0, "")


def test_a_process_that_was_stopped_for_longer_goes_on_when_it_wakes() -> None:
    with worker(signs=20, hangs=False) as process:
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=2.5)
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=30)[1] == ""
        assert process.returncode == 0


def test_a_killed_process_takes_its_guardian_with_it() -> None:
    with worker(signs=600, hangs=False) as process:
        process.kill()
        process.communicate(timeout=30)
