"""`fairlane estate drain`."""

from typing import TYPE_CHECKING

import click

from estate.cli.options import at_once_option, dry_run_option
from fairlane.cli.base import exit_codes
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from fairlane.settings import Settings


@click.command()
@click.argument("broker", metavar="HOST:PORT")
@dry_run_option
@at_once_option
@output_option
@pass_settings
def drain(settings: "Settings", output: Output, broker: str, at_once: int, *, dry_run: bool) -> int:
    """Move all bundles of a broker to the others, for maintenance. HOST:PORT is its REST address.

    Pulsar may load bundles there again later, so stop the broker soon. Exits with 1 if a bundle was left behind.
    """
    from dispatcher.model.errors import NotFound
    from estate.cli.moving import read_facts, show_moves
    from estate.moves.mover import mover_of

    with mover_of(settings) as mover:
        facts = read_facts(mover)
        names = [answer.broker for answer in facts.answers]
        if broker not in names:
            raise NotFound(f"There is no broker {broker}.", f"Name one of {', '.join(names)}.")
        drained = mover.drain(facts, broker, at_once, dry_run=dry_run)
    nothing = f"no bundle of {broker} has a topic"
    code = show_moves(output, drained.plan, drained.progress, {"empty": list(drained.empty)}, nothing)
    for bundle, reason in drained.kept.items():
        say(f"{bundle} was not unloaded: {reason}")
    return exit_codes.FAILURE if drained.kept else code
