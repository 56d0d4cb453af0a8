"""The command line, run in the process of the tests."""

from collections.abc import Sequence

import pytest
from _pytest.capture import CaptureResult

from fairlane.cli.base import exit_codes
from fairlane.cli.main import run


class CommandLine:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, arguments: Sequence[str], code: int = exit_codes.OK) -> CaptureResult[str]:
        """Run a command that ends with this code. Return its output and its messages."""
        assert run([*arguments]) == code
        return self._capsys.readouterr()
