"""Set up the demo (servers, its own tenant and prefix, the tasks), and clean up afterwards."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dispatcher.model.errors import InvalidInput
from fairlane.cli.base.invocation import Invocation
from fairlane.cli.base.steps import steps
from fairlane.crew import WorkerGroup
from fairlane.demo.run import Demo, DemoPlan
from fairlane.isolation import environment, isolated, provisioned
from fairlane.screen.console import console_of
from fairlane.settings import Settings
from fairlane.settings_sources import Sources
from fairlane.stack.stack import LocalStack
from producers.client import PushClient
from producers.files.task_file import TaskEntry, read_task_file

TENANT = "fairlane-demo"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "tasks.yaml"
LEAVE_S = 30.0


def play(invocation: Invocation, tasks: Path | None, capacity: int) -> int:
    """Run the whole demo; return its exit code. Everything it started is stopped again, after a failure, too."""
    began = time.monotonic()
    jobs = read_jobs(tasks)
    with servers(invocation) as settings:
        own = isolated(settings, TENANT)
        crew = WorkerGroup(environment(own), settings.home / "logs" / "demo")
        with provisioned(own):
            try:
                with PushClient.connect(own) as client:
                    return Demo(
                        client=client,
                        crew=crew,
                        jobs=jobs,
                        console=console_of(),
                        plan=DemoPlan(capacity=capacity),
                        started_s=began,
                    ).run()
            finally:
                crew.stop(LEAVE_S)


def read_jobs(tasks: Path | None) -> list[TaskEntry]:
    """Return the tasks of the given file, or of the examples that ship with the checkout."""
    path = tasks or EXAMPLES
    if not path.exists():
        raise InvalidInput("The examples are not installed with this package.", "Name a task file: --tasks FILE.")
    return read_task_file(path)


@contextmanager
def servers(invocation: Invocation) -> Iterator[Settings]:
    """Yield the configured servers, or else the local stack.

    The stack is stopped again unless it was running before.
    """
    settings = invocation.settings()
    sources = Sources(invocation.options)
    if sources.of(("pulsar", "url")) not in ("default", "local stack"):
        yield settings
        return
    stack = LocalStack(settings.home, cache=settings.cache)
    with steps() as progress:
        addresses = stack.up(progress, isolated(settings, TENANT).pulsar)
        where = "already running" if addresses.already_running else "running"
        progress(
            f"{where}: Pulsar {addresses.pulsar_url} and {addresses.pulsar_admin_url}, Redis {addresses.redis_url}"
        )
    try:
        yield invocation.settings()
    finally:
        if not addresses.already_running:
            with steps() as progress:
                stack.down(progress=progress)
