"""`fairlane stack up`, `down`, `status`."""

from typing import Any

import click

from fairlane.cli.base.exit_codes import FAILURE, OK
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.progress import steps
from fairlane.cli.base.settings import options_in, settings_of
from fairlane.settings import Settings, Sources
from lab.stack.estate.shape import EstateRequest, EstateShape
from lab.stack.launch import StackOptions
from lab.stack.stack import LocalStack, StackStatus

DEFAULT_BOOKIES, DEFAULT_BROKERS = 3, 2
_KEPT = ("captures", "moves", "tables")
"""Folders that `down --wipe` leaves."""


def up(
    ctx: click.Context,
    pulsar_port: int | None,
    pulsar_web_port: int | None,
    redis_port: int | None,
    bookies: int | None,
    brokers: int | None,
    output: Output,
) -> None:
    settings = settings_of(ctx)
    options = StackOptions(pulsar_port, pulsar_web_port, redis_port, estate=_estate(bookies, brokers))
    with steps() as progress:
        addresses = _local_stack(settings, options).up(progress, settings.pulsar)
    for line in addresses.changed:
        say(line)
    say("already running" if addresses.already_running else "running")
    _warn_of_other_servers(ctx)
    shown = ("pulsar_url", "pulsar_admin_url", "redis_url", "already_running")
    output.emit_record({name: getattr(addresses, name) for name in shown})


def down(ctx: click.Context, *, wipe: bool) -> None:
    with steps() as progress:
        local = _local_stack(settings_of(ctx))
        stopped = local.down(progress, wipe=wipe)
    say(("stopped" if stopped else "nothing was running") + (", data deleted" if wipe else ""))
    if wipe and (kept := [name for name in _KEPT if (local.home / name).is_dir()]):
        say(f"kept in {local.home}, as they may be of another Pulsar: {', '.join(kept)}")


def status(ctx: click.Context, output: Output) -> int:
    state = _local_stack(settings_of(ctx)).status()
    output.emit_record(_record(state))
    return OK if state.running else FAILURE


def _estate(bookies: int | None, brokers: int | None) -> EstateRequest | None:
    if bookies is None and brokers is None:
        return None
    return EstateRequest(EstateShape(bookies=bookies or DEFAULT_BOOKIES, brokers=brokers or DEFAULT_BROKERS))


def _local_stack(settings: Settings, options: StackOptions | None = None) -> LocalStack:
    return LocalStack(settings.home_folder, options or StackOptions(), cache=settings.cache_folder)


def _warn_of_other_servers(ctx: click.Context) -> None:
    sources = Sources(options_in(ctx))
    for path in (("pulsar", "url"), ("pulsar", "admin_url"), ("redis", "url")):
        origin = sources.of(path)
        if origin not in ("local stack", "default"):
            say(f"note: {'.'.join(path)} is set ({origin}), so other commands use that, not this stack")


def _record(state: StackStatus) -> dict[str, Any]:
    addresses = state.addresses
    return {
        "running": state.running,
        "home": str(state.home),
        "logs": str(state.logs),
        "pulsar_url": addresses.pulsar_url if addresses else None,
        "pulsar_admin_url": addresses.pulsar_admin_url if addresses else None,
        "redis_url": addresses.redis_url if addresses else None,
        **state.servers,
    }
