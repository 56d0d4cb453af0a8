"""The `fairlane` command: global options, lazy subcommands, and the format of errors."""

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from errno import EACCES, EDQUOT, ENOSPC, EROFS
from typing import Any, NoReturn

import click

from dispatcher.model.errors import FairlaneError
from fairlane import floors
from fairlane.cli.base import exit_codes
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.output import say
from fairlane.logging import masked
from fairlane.public_names import hidden_package

COMMANDS = {
    "stack": "start, stop and show the local Pulsar and Redis",
    "provision": "make Pulsar ready: tenant, namespaces, policies, topics",
    "doctor": "check Java, Pulsar, Redis, clock and namespaces, and suggest fixes",
    "config": "show every setting, its value and where it comes from",
    "demo": "run the whole service on this machine with sample tasks",
    "fake": "play FCM or APNs on this machine, to rehearse deliveries",
    "worker": "run workers, or list them",
    "api": "serve the HTTP API and the console",
    "task": "submit, watch and change tasks",
    "dead-letters": "targets that were given up: list, send again, drop",
    "invalid": "targets that providers called invalid: export them",
    "tier": "show or set the weights of the tiers",
    "capacity": "show or set the capacity in targets a second",
    "channel": "cap and pause channels",
    "app": "set the caps, weights and limits of apps",
    "key": "keys of the HTTP API: make, list, revoke",
    "user": "users of the console behind a proxy: rights",
    "audit": "who changed what",
    "quota": "cap apps that share a limit of their provider",
    "signals": "figures for an autoscaler: backlog, rates, spare capacity",
    "backlog": "record snapshots of the backlog, and report on it",
    "estate": "look at the Pulsar estate, record its state, move its load on purpose",
    "top": "watch tiers, tasks and workers live",
    "registry": "the view in Redis: show, rebuild, store a snapshot",
    "ingest": "turn a table of any size into a task",
    "journal": "write the outcome of every target to tables",
    "reconcile": "check that the outcomes add up to the audience",
    "tune": "recommend the settings of a producer or a whole cluster, with reasons",
    "simulate": "run a scenario under a virtual clock, or a model of the estate",
}
"""Help of each command, by name."""
_FILES = {
    "setup": ("provision", "doctor", "config", "tune"),
    "worker": ("worker",),
    "task": ("task",),
    "targets": ("dead-letters", "invalid"),
    "service": ("tier", "capacity", "signals", "top"),
    "channel": ("channel",),
    "app": ("app",),
    "quota": ("quota",),
    "access": ("key", "user", "audit"),
    "registry": ("registry",),
}
"""The commands declared in each file of `commands`."""
_MODULES = {
    name: f"fairlane.cli.commands.{file}:{name.replace('-', '_')}" for file, names in _FILES.items() for name in names
} | floors.COMMANDS


class MainGroup(CommandGroup):
    """All commands; its help imports none of them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in exit_codes.MEANINGS.items()])


def _version(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:  # noqa: FBT001 - click calls it
    if is_set:
        from fairlane import __version__

        click.echo(f"fairlane {__version__}")
        ctx.exit()


_OF_FILES = (EACCES, EDQUOT, ENOSPC, EROFS)
"""Errors of a full or read-only disk, and of missing rights."""
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
"""Settings of the command line: every option shows its default."""


@click.group(cls=MainGroup, modules=_MODULES, context_settings=CONTEXT_SETTINGS)
@click.option("--config", type=click.Path(dir_okay=False), help="TOML file of settings. Default: ./fairlane.toml.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Minimum log level.")
@click.option("--log-json/--no-log-json", default=None, help="Write log messages as JSON lines.")
@click.option("--pulsar-url", metavar="URL", help="Pulsar's binary address, instead of the local stack's.")
@click.option("--pulsar-admin-url", metavar="URL", help="Pulsar's REST address.")
@click.option("--redis-url", metavar="URL", help="Redis' address.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
@click.pass_context
def cli(ctx: click.Context, /, **given: Any) -> None:
    """Fairlane dispatches mass push notifications by priority: one lane per task, one capacity shared by quota."""
    ctx.obj = options_of(**given)


def options_of(
    config: str | None,
    log_level: str | None,
    *,
    log_json: bool | None,
    pulsar_url: str | None,
    pulsar_admin_url: str | None,
    redis_url: str | None,
) -> dict[str, Any]:
    """Return the options as settings, nested by group, without those that were not given."""
    named: dict[str, dict[str, Any]] = {
        "pulsar": {"url": pulsar_url, "admin_url": pulsar_admin_url},
        "redis": {"url": redis_url},
        "log": {"level": log_level, "json": log_json},
    }
    groups = {
        group: {name: value for name, value in given.items() if value is not None} for group, given in named.items()
    }
    top = {} if config is None else {"config": config}
    return {**top, **{group: given for group, given in groups.items() if given}}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with one of the documented codes."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str], command: click.Command = cli, name: str = "fairlane") -> int:
    """Run a command line and return its exit code; errors go to stderr."""
    with redirect_stderr(masked(sys.stderr)):
        return _run(arguments, command, name)


def _run(arguments: list[str], command: click.Command, name: str) -> int:
    try:
        result = command.main(args=arguments, prog_name=name, standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        click.echo(" ".join(["interrupted.", *_notes(error)]), err=True)
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has ended (`| head`); the interpreter must not complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.OK
    except Exception as error:
        return _report(error, arguments)
    return result if isinstance(result, int) else exit_codes.OK


def _notes(error: BaseException) -> list[str]:
    """Return the notes added to an error on its way here, which say how to continue.

    For click's Abort, the notes are those of its cause.
    """
    notes: list[str] = getattr(error.__cause__ or error, "__notes__", [])
    return notes


def _report(error: Exception, arguments: list[str]) -> int:
    """Print an error in one line, cause first; the traceback only if it was requested."""
    if _wants_traceback(arguments):
        import traceback

        say("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, FairlaneError):
        say(f"fairlane: {error.cause} {error.next_step}".rstrip())
        return error.exit_code
    hidden = hidden_package() if isinstance(error, ImportError) else None
    if hidden is not None:
        say(f"fairlane: {hidden}")
        return exit_codes.FAILURE
    say("".join([f"fairlane: {_unexpected(error)}", *(f" {note}" for note in _notes(error))]))
    return exit_codes.FAILURE


def _unexpected(error: Exception) -> str:
    """Return an error that is none of Fairlane's in one line: of a disk, of an argument, or else a defect."""
    if isinstance(error, OSError) and error.errno in _OF_FILES:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        return f"{what}. Check free space and permissions; FAIRLANE_HOME names another folder."
    if isinstance(error, UnicodeEncodeError) and error.encoding == "utf-8":
        return f"an argument is not text in UTF-8: {error.object!a}."
    return f"internal error: {type(error).__name__}: {error} (`fairlane --log-level debug ...` shows where)"


def _wants_traceback(arguments: list[str]) -> bool:
    asked = any(
        argument == "--log-level=debug" or arguments[position : position + 2] == ["--log-level", "debug"]
        for position, argument in enumerate(arguments)
    )
    return asked or os.environ.get("FAIRLANE_LOG_LEVEL", "").lower() == "debug"
