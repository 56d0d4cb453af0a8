"""`fairlane estate show`: all nodes in one view, and what is wrong."""

import time
from typing import TYPE_CHECKING

import click

from fairlane.cli.base.arguments import seconds_between
from fairlane.cli.base.exit_codes import FAILURE, OK
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option

if TYPE_CHECKING:
    from estate.view import EstateView
    from fairlane.settings import Settings


@click.command()
@click.option("-w", "--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option("--every", type=seconds_between(0.5), default=2.0, help="Seconds between looks of --watch.")
@click.option("--count", type=click.IntRange(1), help="With --watch: stop after this many looks.")
@click.option("--stages", is_flag=True, help="Show the time of an envelope in each stage, with the slowest node.")
@output_option
@pass_settings
def show(settings: "Settings", output: Output, *, watch: bool, every: float, count: int | None, stages: bool) -> int:
    """Show brokers, bookies and the metadata store, and what is wrong with them.

    All nodes are asked at once, for at most 2 s each; one that does not answer is listed, too. Exits with 1 if
    something is wrong.
    """
    from estate.view import EstateViewer

    with EstateViewer(settings, with_stages=stages) as viewer:
        view = viewer.look()
        _emit(view, output)
        looks = 1
        while watch and looks != count:
            time.sleep(every)
            view = viewer.look()
            if not output.as_json:
                click.clear()  # only on a terminal
            _emit(view, output)
            looks += 1
    return FAILURE if view.wrong else OK


def _emit(view: "EstateView", output: Output) -> None:
    from estate.cli.screen import estate_tables

    output.emit(view.document(), lambda: estate_tables(view))
