"""Set up the demo (servers, a tenant and a prefix of its own, the tasks), run it, report, and clean up."""

import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from dispatcher.model.errors import InvalidInput
from fairlane.cli.base.progress import steps
from fairlane.cli.base.settings import options_in, settings_of
from fairlane.screen.console import console_of
from fairlane.settings import Settings, Sources
from fairlane.worker.process.stop_signal import interrupted_by
from lab.demo.report import DemoResult, closing_report
from lab.demo.run import Demo, DemoClient
from lab.fake import process
from lab.isolation import environment, isolated, provisioned
from lab.stack.stack import LocalStack
from lab.worker_group import WorkerGroup
from producers.files.task_file import TaskEntry, read_task_file

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "tasks.yaml"
THROUGH_FCM = frozenset(("shop-order-shipped", "shop-flash-sale", "chat-new-message", "chat-mentions", "chat-tips"))
"""A third of the targets of the examples."""
LEAVE_S = 30.0


def demo(ctx: click.Context, tasks: Path | None, capacity: int) -> int:
    """Run the whole demo; return its exit code, which is 0 only if every target ended in an outcome.

    Everything it started is stopped again, after a failure, too.
    """
    began_s = time.monotonic()
    jobs = read_jobs(tasks)
    tenant = f"fairlane-demo-{secrets.token_hex(2)}"
    with (
        interrupted_by(signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
        servers(ctx, tenant) as settings,
        process.running(settings.home_folder / "demo" / "fcm")
        if tasks is None and process.can_run()
        else nullcontext() as fcm,
    ):
        own, variables = isolated(settings, tenant), {}
        if fcm is not None:
            jobs = [through_fcm(job) if job.task.id in THROUGH_FCM else job for job in jobs]
            variables = fcm.environment(sorted({job.task.app for job in jobs if job.task.channel == "fcm"}))
        workers = WorkerGroup({**environment(own), **variables}, settings.home_folder / "logs" / "demo")
        with provisioned(own), DemoClient.connect(own) as client:
            demo = Demo(client=client, workers=workers, capacity=capacity, console=console_of())
            try:
                with served_console(workers.environment, workers.logs / "console.log", demo.console):
                    handles = demo.run(jobs)
                result = DemoResult(
                    tasks=client.tasks()[::-1],
                    accepted={handle.id: handle.result.accepted for handle in handles if handle.result},
                    workers=client.workers(),
                    meter=demo.meter,
                    seconds=time.monotonic() - began_s,
                    fcm=None if fcm is None else fcm.ask("GET", "counts"),
                )
                demo.console.print(closing_report(result))
                return 1 if result.failures() else 0
            finally:
                workers.stop(LEAVE_S)


@contextmanager
def served_console(environment: dict[str, str], log: Path, screen: Console) -> Iterator[None]:
    """Serve the web console for the time of the block, and print the link to it once it is there."""
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "fairlane", "api", "--port", "0", "--metrics-port", "-1"]
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as api,
    ):

        def show_link() -> None:
            for line in api.stdout or ():
                screen.print(line.strip(), markup=False, highlight=False, soft_wrap=True)

        reader = threading.Thread(target=show_link, name="console", daemon=True)
        reader.start()
        try:
            yield
        finally:
            api.kill()
            reader.join()


def read_jobs(tasks: Path | None) -> list[TaskEntry]:
    """Return the tasks of the given file, or of the examples that ship with the checkout."""
    path = tasks or EXAMPLES
    if not path.exists():
        raise InvalidInput("The examples are not installed with this package.", "Name a task file: --tasks FILE.")
    return read_task_file(path)


def through_fcm(job: TaskEntry) -> TaskEntry:
    """Return the same task in the channel `fcm`."""
    message = {**job.task.message, "data": {process.MESSAGE_ID: job.task.id}}
    return replace(job, task=job.task.model_copy(update={"channel": "fcm", "message": message}))


@contextmanager
def servers(ctx: click.Context, tenant: str) -> Iterator[Settings]:
    """Yield the configured servers, or else the local stack.

    The stack is stopped again unless it was running before.
    """
    settings = settings_of(ctx)
    sources = Sources(options_in(ctx))
    if sources.of(("pulsar", "url")) not in ("default", "local stack"):
        yield settings
        return
    stack = LocalStack(settings.home_folder, cache=settings.cache_folder)
    with steps() as progress:
        addresses = stack.up(progress, isolated(settings, tenant).pulsar)
        where = "already running" if addresses.already_running else "running"
        progress(
            f"{where}: Pulsar {addresses.pulsar_url} and {addresses.pulsar_admin_url}, Redis {addresses.redis_url}"
        )
    try:
        yield settings_of(ctx)
    finally:
        if not addresses.already_running:
            with steps() as progress:
                stack.down(progress=progress)
