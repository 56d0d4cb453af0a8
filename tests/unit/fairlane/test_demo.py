"""One demo at a time, also after one that was killed."""

import signal
import subprocess
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from dispatcher.model.errors import Refused
from lab.demo.only_demo import only_demo


def test_what_a_demo_left_that_was_killed_is_stopped_before_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen(["sleep", "60"]) as left, subprocess.Popen(["sleep", "60"]) as other:
        try:
            with only_demo(tmp_path) as note:
                note(left.pid)
            assert left.poll() is None
            with only_demo(tmp_path):
                assert left.poll() is not None
            assert other.poll() is None
        finally:
            left.kill()
            other.kill()
    assert capsys.readouterr().err == "stopping the processes of a demo that was killed\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_told_to_end_stops_what_it_has_started(tmp_path: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    stopped: list[bool] = []
    with pytest.raises(KeyboardInterrupt), only_demo(tmp_path), closing(Mock(close=lambda: stopped.append(True))):
        signal.raise_signal(number)
    assert stopped
    assert signal.getsignal(number) is before


def test_a_second_demo_would_delete_the_tasks_of_the_first_and_is_refused(tmp_path: Path) -> None:
    with (
        only_demo(tmp_path),
        pytest.raises(Refused, match="A demo is under way"),
        only_demo(tmp_path),
    ):
        pass
    with only_demo(tmp_path):
        pass
