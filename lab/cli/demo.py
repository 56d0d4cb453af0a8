"""`fairlane demo`: the whole service on this machine, from an empty stack to the closing report."""

from pathlib import Path

import click

from fairlane.cli.base.groups import Declared


@click.command(cls=Declared, handlers="lab.demo.start")
@click.option(
    "--tasks", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The task file (examples/tasks.yaml)."
)
@click.option("--capacity", type=click.IntRange(1), default=3_000, help="Targets per second.")
def demo() -> None:
    """Start Pulsar and Redis if needed, run nine tasks through two workers (a third joins, one leaves), and report.

    A third of the examples' targets goes to a fake of FCM over TLS if the pip extras push and lab are installed. All
    others go to the channel of their task. Exit code 0 only if every target ended in exactly one outcome, and the fake
    accepted each of its messages once.
    """
