"""`fairlane stack`: the local Pulsar and Redis."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli.base.exit_codes import FAILURE, OK
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.invocation import Invocation, pass_invocation
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from fairlane.settings import Settings
    from fairlane.stack.launch import StackOptions
    from fairlane.stack.stack import LocalStack, StackStatus


@click.group(cls=CommandGroup)
def stack() -> None:
    """The local stack: a real Pulsar and a real Redis on this machine, with little memory."""


@stack.command()
@click.option("--pulsar-port", type=click.IntRange(1, 65535), help="Pulsar's port; must be free")
@click.option("--pulsar-web-port", type=click.IntRange(1, 65535), help="Pulsar's REST port; must be free")
@click.option("--redis-port", type=click.IntRange(1, 65535), help="Redis' port; must be free")
@output_option
@pass_invocation
def up(
    invocation: Invocation,
    pulsar_port: int | None,
    pulsar_web_port: int | None,
    redis_port: int | None,
    output: Output,
) -> None:
    """Start Pulsar and Redis, wait until they are ready, and provision them.

    The usual ports are 6650, 8080 and 6379; if one is taken, the next free one is used and printed. The addresses stay
    in force until `stack down`: a stopped server is started again on its port if the port is free.
    """
    from fairlane.cli.base.steps import steps
    from fairlane.stack.launch import StackOptions

    settings = invocation.settings()
    options = StackOptions(pulsar_port, pulsar_web_port, redis_port)
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
        stopped = _local_stack(invocation.settings()).down(progress, wipe=wipe)
    say(("stopped" if stopped else "nothing was running") + (", data deleted" if wipe else ""))


@stack.command()
@output_option
@pass_invocation
def status(invocation: Invocation, output: Output) -> int:
    """Show the servers with their addresses and logs. Exits with 1 if the stack is not running."""
    state = _local_stack(invocation.settings()).status()
    output.emit_record(_record(state))
    return OK if state.running else FAILURE


def _local_stack(settings: "Settings", options: "StackOptions | None" = None) -> "LocalStack":
    from fairlane.stack.launch import StackOptions
    from fairlane.stack.stack import LocalStack

    return LocalStack(settings.home, options or StackOptions(), cache=settings.cache)


def _warn_of_other_servers(invocation: Invocation) -> None:
    from fairlane.settings_sources import Sources

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
        **{server.name: {k: v for k, v in asdict(server).items() if k != "name"} for server in state.servers},
    }
