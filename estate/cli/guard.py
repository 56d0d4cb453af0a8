"""`fairlane estate guard`."""

from typing import TYPE_CHECKING

import click

from fairlane.cli.base.exit_codes import OK
from fairlane.cli.base.invocation import pass_settings

if TYPE_CHECKING:
    from fairlane.settings import Settings


@click.command()
@click.option("--act", is_flag=True, help="Take slow nodes out of service and put them back; without it, only say so.")
@click.option(
    "--metrics-port",
    type=click.IntRange(-1, 65_535),
    default=0,
    help="Port of the Prometheus metrics; 0 for any free port, -1 for none.",
)
@pass_settings
def guard(settings: "Settings", *, act: bool, metrics_port: int) -> int:
    """Watch brokers and bookies, name slow ones, and with --act isolate them until they are well.

    Several guards may run: one is elected, and another takes over within 4 s if it ends. A slow bookie becomes
    read-only, a slow broker is drained. One node at a time is isolated, and none if too few writable bookies or brokers
    would be left, or if more than a third of its kind are slow. SIGTERM or Ctrl-C ends it.
    """
    from estate.guard.process import run_guard
    from fairlane.worker.process.stop_signal import stop_on_signals

    run_guard(settings, stop_on_signals(), acts=act, metrics_port=metrics_port)
    return OK
