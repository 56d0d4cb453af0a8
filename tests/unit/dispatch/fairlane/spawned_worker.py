"""A worker process that fails with an error of a library."""

from typing import Any

from dispatcher.model.shown import Secrets
from fairlane.settings import Settings
from fairlane.worker.process import process

SECRET = "hush-of-the-parent"


def fail(secrets: Secrets) -> None:
    def raising(*_: Any) -> int:
        raise ValueError(SECRET)

    process._run_one = raising  # type: ignore[assignment]  # noqa: SLF001 -- the worker itself
    process.run_child(Settings(), "w1", secrets)
