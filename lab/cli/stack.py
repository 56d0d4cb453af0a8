"""`fairlane stack`: the local Pulsar and Redis."""

from typing import TYPE_CHECKING, Any

import click

from fairlane.cli.base.exit_codes import FAILURE, OK
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.invocation import Invocation, pass_invocation
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from fairlane.settings import Settings
    from lab.stack.estate.shape import EstateRequest
    from lab.stack.launch import StackOptions
    from lab.stack.stack import LocalStack, StackStatus

DEFAULT_BOOKIES, DEFAULT_BROKERS = 3, 2


@click.group(cls=CommandGroup)
def stack() -> None:
    """The local stack: a real Pulsar and a real Redis on this machine, with little memory."""


@stack.command()
@click.option("--pulsar-port", type=click.IntRange(1, 65535), help="Pulsar's port; must be free")
@click.option("--pulsar-web-port", type=click.IntRange(1, 65535), help="Pulsar's REST port; must be free")
@click.option("--redis-port", type=click.IntRange(1, 65535), help="Redis' port; must be free")
@click.option("--bookies", type=click.IntRange(1, 9), help="Start an estate with this many bookies (default 3).")
@click.option("--brokers", type=click.IntRange(1, 9), help="Start an estate with this many brokers (default 2).")
@output_option
@pass_invocation
def up(
    invocation: Invocation,
    pulsar_port: int | None,
    pulsar_web_port: int | None,
    redis_port: int | None,
    bookies: int | None,
    brokers: int | None,
    output: Output,
) -> None:
    """Start Pulsar and Redis, wait until they are ready, and provision Pulsar.

    With --bookies or --brokers, Pulsar is an estate instead of one process: ZooKeeper, bookies (each on an address of
    its own in 127/8) and brokers. Three bookies and two brokers take half a minute to start and 1.3 GB. An estate can
    grow while it runs.

    The usual ports are 6650, 8080 and 6379; if one is taken, the next free one is used and printed. The addresses stay
    in force until `stack down`: if a server has stopped, `stack up` starts it again on its port if that is free.
    """
    from fairlane.cli.base.steps import steps
    from lab.stack.launch import StackOptions

    settings = invocation.settings()
    options = StackOptions(pulsar_port, pulsar_web_port, redis_port, estate=_estate(bookies, brokers))
    with steps() as progress:
        addresses = _local_stack(settings, options).up(progress, settings.pulsar)
    for line in addresses.changed:
        say(line)
    say("already running" if addresses.already_running else "running")
    _warn_of_other_servers(invocation)
    shown = ("pulsar_url", "pulsar_admin_url", "redis_url", "already_running")
    output.emit_record({name: getattr(addresses, name) for name in shown})


@stack.command()
@click.option("--wipe", is_flag=True, help="Delete all data and logs, too.")
@pass_invocation
def down(invocation: Invocation, *, wipe: bool) -> None:
    """Stop Pulsar and Redis; their data stays unless --wipe."""
    from fairlane.cli.base.steps import steps

    with steps() as progress:
        local = _local_stack(invocation.settings())
        stopped = local.down(progress, wipe=wipe)
    say(("stopped" if stopped else "nothing was running") + (", data deleted" if wipe else ""))
    if wipe and (kept := [name for name in _KEPT if (local.home / name).is_dir()]):
        say(f"kept in {local.home}, as they may be of another Pulsar: {', '.join(kept)}")


_KEPT = ("captures", "moves", "tables")


@stack.command()
@output_option
@pass_invocation
def status(invocation: Invocation, output: Output) -> int:
    """Show the local servers, their addresses and the paths of their logs. Exits with 1 unless all are running."""
    state = _local_stack(invocation.settings()).status()
    output.emit_record(_record(state))
    return OK if state.running else FAILURE


def _estate(bookies: int | None, brokers: int | None) -> "EstateRequest | None":
    from lab.stack.estate.shape import EstateRequest, EstateShape

    if bookies is None and brokers is None:
        return None
    return EstateRequest(EstateShape(bookies=bookies or DEFAULT_BOOKIES, brokers=brokers or DEFAULT_BROKERS))


def _local_stack(settings: "Settings", options: "StackOptions | None" = None) -> "LocalStack":
    from lab.stack.launch import StackOptions
    from lab.stack.stack import LocalStack

    return LocalStack(settings.home_folder, options or StackOptions(), cache=settings.cache_folder)


def _warn_of_other_servers(invocation: Invocation) -> None:
    from fairlane.settings import Sources

    sources = Sources(invocation.options)
    for path in (("pulsar", "url"), ("pulsar", "admin_url"), ("redis", "url")):
        origin = sources.of(path)
        if origin not in ("local stack", "default"):
            say(f"note: {'.'.join(path)} is set ({origin}), so other commands use that, not this stack")


def _record(state: "StackStatus") -> dict[str, Any]:
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
