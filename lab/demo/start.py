"""Set up the demo (servers, its own tenant and prefix, the tasks), and clean up afterwards."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dispatcher.model.errors import InvalidInput
from fairlane.cli.base.invocation import Invocation
from fairlane.cli.base.steps import steps
from fairlane.screen.console import console_of
from fairlane.settings import Settings, Sources
from lab.demo.fake_fcm import FakeFcm, can_run, running, through_fcm
from lab.demo.only_demo import only_demo
from lab.demo.run import Demo, DemoPlan
from lab.isolation import environment, isolated, provisioned
from lab.stack.stack import LocalStack
from lab.worker_group import WorkerGroup
from producers.client import PushClient
from producers.files.task_file import TaskEntry, read_task_file

TENANT = "fairlane-demo"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "tasks.yaml"
LEAVE_S = 30.0


def play(invocation: Invocation, tasks: Path | None, capacity: int) -> int:
    """Run the whole demo; return its exit code. Everything it started is stopped again, after a failure, too."""
    began = time.monotonic()
    jobs = read_jobs(tasks)
    with (
        only_demo(invocation.settings().home_folder / "demo") as note,
        servers(invocation) as settings,
        fake_fcm(settings, is_wanted=tasks is None) as fcm,
    ):
        own = isolated(settings, TENANT)
        variables = {}
        if fcm is not None:
            note(fcm.pid)
            jobs = through_fcm(jobs)
            variables = fcm.environment(sorted({job.task.app for job in jobs if job.task.channel == "fcm"}))
        workers = WorkerGroup({**environment(own), **variables}, settings.home_folder / "logs" / "demo", note=note)
        with provisioned(own):
            try:
                with PushClient.connect(own) as client:
                    return Demo(
                        client=client,
                        workers=workers,
                        jobs=jobs,
                        console=console_of(),
                        plan=DemoPlan(capacity=capacity),
                        started_s=began,
                        fcm=fcm,
                    ).run()
            finally:
                workers.stop(LEAVE_S)


def read_jobs(tasks: Path | None) -> list[TaskEntry]:
    """Return the tasks of the given file, or of the examples that ship with the checkout."""
    path = tasks or EXAMPLES
    if not path.exists():
        raise InvalidInput("The examples are not installed with this package.", "Name a task file: --tasks FILE.")
    return read_task_file(path)


@contextmanager
def fake_fcm(settings: Settings, *, is_wanted: bool) -> Iterator[FakeFcm | None]:
    """Yield a running fake of FCM; None if the tasks are the user's, or its packages are not installed."""
    if not is_wanted or not can_run():
        yield None
        return
    with running(settings.home_folder / "demo" / "fcm") as fcm:
        yield fcm


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
    stack = LocalStack(settings.home_folder, cache=settings.cache_folder)
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
