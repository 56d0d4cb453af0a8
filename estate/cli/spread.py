"""`fairlane estate spread`."""

from functools import partial
from typing import TYPE_CHECKING

import click

from estate.cli.options import at_once_option, dry_run_option
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from fairlane.settings import Settings


@click.command()
@dry_run_option
@at_once_option
@output_option
@pass_settings
def spread(settings: "Settings", output: Output, at_once: int, *, dry_run: bool) -> int:
    """Let the standing topics begin new ledgers, so that a bookie that was added gets its part of them.

    Standing topics always exist: shared and retry lanes, control, outcomes and dead letters. New ledgers use all
    bookies, but such a topic keeps its present ledger for up to four hours. Each topic pauses for some tenths of a
    second. Exits with 1 if a topic was given up.
    """
    from backends.pulsar.client import topics
    from estate.cli.moving import show_progress
    from estate.facts.bundles import BundleAdmin
    from estate.moves.runner import MoveRunner, MoveState, reload_topic
    from estate.plans.balance import Move

    names = topics(settings.pulsar)
    standing = [*names.standing_lanes(), *names.system_topics()]
    if dry_run:
        output.emit_rows([{"topic": topic} for topic in standing], ["topic"])
        return 0
    with BundleAdmin(settings.pulsar) as admin:
        moves = [Move(topic, "", "any broker") for topic in standing]
        progress = MoveRunner(moves, partial(reload_topic, admin), at_once).run()  # no log: it needs no undo
    code = show_progress(output, progress, ["topic", "state", "tries", "reason"])
    begun = sum(each.state is MoveState.VERIFIED for each in progress)
    say(f"{begun} of {len(progress)} topics began new ledgers.")
    return code
