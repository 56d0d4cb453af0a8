"""`fairlane estate spread`."""

from functools import partial
from typing import TYPE_CHECKING

import click

from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option, say
from fairlane.cli.estate.options import at_once_option, dry_run_option

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
    from backends.pulsar.estate.bundles import BundleAdmin
    from backends.system_clock import SystemClock
    from estate.balance import Move
    from estate.moves import MoveWindow, WindowSettings
    from fairlane.cli.estate.moving import emit_progress, exit_of
    from fairlane.estate.run_moves import MoveRunner, reload_topic

    names = topics(settings.pulsar)
    standing = [*names.standing_lanes(), *names.system_topics()]
    if dry_run:
        output.emit_rows([{"topic": topic} for topic in standing], ["topic"])
        return 0
    with BundleAdmin(settings.pulsar) as admin:
        window = MoveWindow([Move(topic, "", "any broker") for topic in standing], _forget, WindowSettings(at_once))
        progress = MoveRunner(window, partial(reload_topic, admin), SystemClock(), at_once).run(lambda: False)
    emit_progress(output, progress, ["topic", "state", "tries", "reason"])
    begun = sum(one.state == "verified" for one in progress)
    say(f"{begun} of {len(progress)} topics began new ledgers.")
    return exit_of(progress)


def _forget(_: object) -> None:
    """Keep no journal: a topic that began a new ledger needs no undo."""
