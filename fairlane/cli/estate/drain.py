"""`fairlane estate drain`."""

from typing import TYPE_CHECKING

import click

from fairlane.cli.base import exit_codes
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option, say
from fairlane.cli.estate.options import at_once_option, dry_run_option

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
    from estate.balance import Goal, pieces_of, plan_drain
    from fairlane.cli.estate.moving import mover_of
    from fairlane.estate.drains import let_go

    with mover_of(settings, output, f"no bundle of {broker} has a topic") as mover:
        facts = mover.read()
        names = [one.name for one in facts.estate.brokers]
        if broker not in names:
            raise NotFound(f"There is no broker {broker}.", f"Name one of {', '.join(names)}.")
        plan = plan_drain(pieces_of(facts.estate, Goal.BYTES), facts.brokers(), broker)
        more = {"empty": list(facts.empty.get(broker, ()))}
        if dry_run:
            return mover.show(plan, more)
        code = mover.carry_out(plan, facts, at_once, more)
        left = let_go(mover.admin, more["empty"])
        for bundle, reason in left.items():
            say(f"{bundle} was not unloaded: {reason}")
        return code if not left else exit_codes.FAILURE
