"""`fairlane registry adopt`, `rebuild`, `snapshot`."""

from collections.abc import Callable
from contextlib import closing

import click

from backends.redis.epochs import Epoch, Epochs
from backends.redis.view import open_view
from fairlane.cli.base.exit_codes import REFUSED
from fairlane.cli.base.output import Output, confirm, say
from fairlane.cli.base.settings import settings_of
from fairlane.cli.handlers.view import epoch_fields
from fairlane.worker import rebuild_by_hand as by_hand


def rebuild(ctx: click.Context, output: Output, *, wipe: bool, full: bool, timeout: float) -> None:
    epoch = by_hand.rebuild(settings_of(ctx), _progress(), timeout, wipe=wipe, full=full)
    output.emit_record(epoch_fields(epoch))


def adopt(ctx: click.Context, output: Output, *, yes: bool, timeout: float) -> None:
    settings = settings_of(ctx)
    with closing(open_view(settings.redis)) as view:
        epoch, address = Epochs(view).epoch(), view.address
    if epoch is not None and epoch.address == address and not epoch.foreign:
        say(f"The view is already in {address}. `fairlane registry rebuild` rebuilds it there.")
        ctx.exit(REFUSED)
    say(f"The view moves to {address}" + (f" from {epoch.foreign}." if epoch is not None and epoch.foreign else "."))
    if not yes:
        confirm(ctx, "Move it?")
    output.emit_record(epoch_fields(by_hand.rebuild(settings, _progress(), timeout, wipe=True, adopt=True)))


def snapshot(ctx: click.Context, output: Output) -> None:
    output.emit_record({"snapshot": by_hand.snapshot(settings_of(ctx))})


def _progress() -> Callable[[Epoch | None], None]:
    """Return a function that reports how far the view is, each line once."""
    printed: list[str] = []

    def progress(epoch: Epoch | None) -> None:
        line = describe(epoch)
        if printed[-1:] != [line]:
            printed.append(line)
            say(line)

    return progress


def describe(epoch: Epoch | None) -> str:
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


def _trouble_of(epoch: Epoch) -> str:
    if epoch.foreign:
        return f"the view of this installation is in another Redis, {epoch.foreign}"
    if epoch.deposed:
        return f"a replica took the place of this Redis (epoch {epoch.deposed}); nothing is granted here"
    return f"a script failed half-way ({epoch.broken}); a worker rebuilds the view from Pulsar"
