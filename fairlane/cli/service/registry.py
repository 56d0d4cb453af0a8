"""`fairlane registry`: the view in Redis, and how to rebuild it from Pulsar."""

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli.base.arguments import DURATION
from fairlane.cli.base.exit_codes import REFUSED
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.invocation import pass_settings
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backends.redis.epochs import Epoch
    from backends.redis.skipped_records import SkippedRecord
    from fairlane.settings import Settings


MAX_SHOWN = 10
"""Maximum number of skipped records listed per topic."""


@click.group(cls=CommandGroup)
def registry() -> None:
    """The view: the copy in Redis of tasks, counts and claims. It can always be rebuilt from Pulsar."""


@registry.command()
@output_option
@pass_settings
def status(settings: "Settings", output: Output) -> None:
    """Show whether the view is complete, how far a rebuild has got, and counters of rare events.

    \b
    repeats           an attempt of an envelope was recorded twice
    repeats_possible  targets that may be sent twice: a worker that was sending them died or stalled before
                      it recorded them
    granted, used, returned, expired
                      targets of leases by tier: leased, sent, given back in time, not given back in time
    malformed         records that this version cannot read; it skipped them. passed_over has their positions;
                      after an upgrade, workers read them again by themselves
    """
    from backends.redis.epochs import Epochs
    from backends.redis.skipped_records import SkippedRecords
    from backends.redis.view import open_view

    with closing(open_view(settings.redis)) as view:
        skipped = SkippedRecords(view).by_topic(settings.pulsar.outcome_partitions)
        shown = {topic: shown_of(kept) for topic, kept in skipped.items()}
        output.emit_record({**fields_of(Epochs(view).epoch()), "counters": view.stats(), "passed_over": shown})


@registry.command()
@click.option("--wipe", is_flag=True, help="Empty the view first. Nothing is lost; sending pauses until it is rebuilt.")
@click.option("--full", is_flag=True, help="Delete the snapshots first, so that all records are read.")
@click.option("--timeout", type=DURATION, default="10m", help="Maximum time to wait for completion.")
@output_option
@pass_settings
def rebuild(settings: "Settings", *, wipe: bool, full: bool, timeout: float, output: Output) -> None:
    """Rebuild the view from the newest snapshot and from Pulsar's control and outcome topics. Workers do this by
    themselves when Redis is empty."""
    from fairlane.worker.rebuild_by_hand import rebuild as by_hand

    output.emit_record(fields_of(by_hand(settings, _progress(), timeout, wipe=wipe, full=full)))


@registry.command()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--timeout", type=DURATION, default="10m", help="Maximum time to wait for completion.")
@output_option
@pass_settings
def adopt(settings: "Settings", *, yes: bool, timeout: float, output: Output) -> None:
    """Move the view to the Redis that redis.url names for this command. There, all keys that begin with redis.prefix
    are deleted, and the view is rebuilt from Pulsar. The old Redis is not changed.

    Workers on the old Redis stop within seconds; start them again with the new redis.url."""
    from backends.redis.epochs import Epochs
    from backends.redis.view import open_view
    from fairlane.cli.task.many import confirm
    from fairlane.worker.rebuild_by_hand import rebuild as by_hand

    ctx = click.get_current_context()
    with closing(open_view(settings.redis)) as view:
        epoch, address = Epochs(view).epoch(), view.address
    if epoch is not None and epoch.address == address and not epoch.foreign:
        say(f"The view is already in {address}. `fairlane registry rebuild` rebuilds it there.")
        ctx.exit(REFUSED)
    say(f"The view moves to {address}" + (f" from {epoch.foreign}." if epoch is not None and epoch.foreign else "."))
    if not yes:
        confirm(ctx, "Move it?")
    output.emit_record(fields_of(by_hand(settings, _progress(), timeout, wipe=True, adopt=True)))


@registry.command()
@output_option
@pass_settings
def snapshot(settings: "Settings", output: Output) -> None:
    """Store a snapshot of the view now; the next rebuild starts from it. Workers also do this by themselves."""
    from fairlane.worker.rebuild_by_hand import snapshot as by_hand

    output.emit_record({"snapshot": by_hand(settings)})


def shown_of(kept: "Sequence[SkippedRecord]") -> dict[str, Any]:
    """Return the number of skipped records of a topic, and the first of them."""
    first = {one.position: f"{one.reason} (by {one.reader})" for one in kept[:MAX_SHOWN]}
    return {"records": len(kept), **first}


def _progress() -> "Callable[[Epoch | None], None]":
    """Return a function that reports how far the view is, each line once."""
    printed: list[str] = []

    def progress(epoch: "Epoch | None") -> None:
        line = describe(epoch)
        if printed[-1:] != [line]:
            printed.append(line)
            say(line)

    return progress


def describe(epoch: "Epoch | None") -> str:
    """Return one line on how far a view is."""
    if epoch is None:
        return "the view is empty"
    if epoch.foreign or epoch.deposed or epoch.broken:
        return _trouble_of(epoch)
    if epoch.ready:
        return "the view is complete"
    if epoch.wait_ms > 0:
        return f"rebuild {epoch.id}: reading the topics; nothing is sent until the earlier claims have ended"
    if not epoch.marked:
        return f"rebuild {epoch.id}: reading the topics"
    return f"rebuild {epoch.id}: {len(epoch.read)} of {epoch.partitions + 1} topics read to their ends"


def _trouble_of(epoch: "Epoch") -> str:
    if epoch.foreign:
        return f"the view of this installation is in another Redis, {epoch.foreign}"
    if epoch.deposed:
        return f"a replica took the place of this Redis (epoch {epoch.deposed}); nothing is granted here"
    return f"a script failed half-way ({epoch.broken}); a worker rebuilds the view from Pulsar"


def fields_of(epoch: "Epoch | None") -> dict[str, Any]:
    if epoch is None:
        return {"epoch": None, "complete": False, "grants": False}
    return {
        "epoch": epoch.id,
        "form": epoch.form,
        "address": epoch.address,
        "moved_to": epoch.foreign,
        "broken": epoch.broken,
        "started_ms": epoch.started_ms,
        "complete": epoch.ready,
        "grants": epoch.grants,
        "wait_ms": epoch.wait_ms,
        "topics": epoch.partitions + 1,
        "topics_read": len(epoch.read),
    }
