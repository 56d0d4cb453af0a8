"""Commands that run until they are stopped leave in order, however many signals ask them to."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairlane import Settings
from tests.integration.worker_crew import environment, eventually

BURST, BURST_S = 50, 0.001
STARTS_S, LEAVES_S = 120.0, 45.0
BURSTS = {
    "SIGTERM": (signal.SIGTERM,),
    "both": (signal.SIGINT, signal.SIGTERM),
    "all": (signal.SIGUSR1, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR2),
}
COMMANDS = {
    "worker": (["worker"], " serves (", 1),
    "supervisor": (["worker", "--processes", "2"], " serves (", 2),
    "guard": (["estate", "guard"], "this guard is elected", 1),
    "snapshot": (["backlog", "snapshot", "--every", "1s"], "a snapshot every", 1),
    "journal": (["journal", "run", "--master", "local[1]", "--every", "1s"], "outcomes to", 1),
}
"""A command, the words by which it says that it runs, and how often it says them."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("numbers", BURSTS.values(), ids=BURSTS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_burst_of_50_signals_in_a_millisecond_lets_a_command_leave_in_order(
    name: str, numbers: tuple[signal.Signals, ...], fresh_settings: Settings, tmp_path: Path
) -> None:
    command, words, times = COMMANDS[name]
    log = tmp_path / "log"
    with log.open("wb") as file:
        given = {**environment(fresh_settings), "FAIRLANE_HOME": str(tmp_path)}
        process = subprocess.Popen(
            [sys.executable, "-m", "fairlane", *command], env=given, stdout=file, stderr=file, start_new_session=True
        )
        try:
            eventually(lambda: log.read_text().count(words) >= times or process.poll() is not None, STARTS_S, words)
            began_s = time.monotonic()
            for index in range(BURST):
                while time.monotonic() - began_s < index * BURST_S / BURST:
                    pass
                process.send_signal(numbers[index % len(numbers)])
            assert process.wait(LEAVES_S) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()
    assert "Traceback" not in log.read_text()
    assert "killing it" not in log.read_text()
