"""`fairlane key create | list | revoke`, `fairlane user set | list | remove`, `fairlane audit list`."""

import click

from fairlane.cli.base.arguments import DURATION
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.options import app_names
from fairlane.cli.base.output import output_option

_HANDLERS = "fairlane.cli.handlers.access"
_of_app = click.option("--app", metavar="NAME", help="Only those of this app.", shell_complete=app_names)
_for_app = click.option("--app", metavar="NAME", help="The app it acts for.  [default: all]")
_scopes = click.option(
    "--scopes", required=True, metavar="SCOPE,...", help="What it may do: submit, read, control, operator (everything)."
)


@click.group(cls=Noun, handlers=_HANDLERS)
def key() -> None:
    """Keys of the HTTP API. A key acts for one app, or for all, with some scopes."""


@key.command("create")
@_for_app
@_scopes
@click.option("--ends", "ends_in_s", type=DURATION, help="How long it lives, such as 90d.  [default: until revoked]")
def create() -> None:
    """Make a key and print it, alone on stdout. It is shown this once; only its SHA-256 is stored."""


@key.command("list")
@_of_app
@output_option
def list_keys() -> None:
    """List keys, newest first: rights, state (live, ended, revoked) and last use, without their secrets."""


@key.command("revoke")
@click.argument("key_id", metavar="ID")
def revoke() -> None:
    """Revoke a key. It is refused within a second, by every process of the API."""


@click.group(cls=Noun, handlers=_HANDLERS)
def user() -> None:
    """Users of the console whom a proxy names (`fairlane api --user-header`). A user without rights may do nothing."""


@user.command("set")
@click.argument("name")
@_for_app
@_scopes
def set_user() -> None:
    """Give a user rights, in place of those it had. They apply within a second."""


@user.command("list")
@output_option
def list_users() -> None:
    """List users and their rights."""


@user.command("remove")
@click.argument("name")
def remove_user() -> None:
    """Take all rights from a user, within a second."""


@click.group(cls=Noun, handlers=_HANDLERS)
def audit() -> None:
    """Who changed what: tasks, settings, keys, dead letters."""


@audit.command("list")
@_of_app
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, help="Maximum number of changes.")
@output_option
def list_audit() -> None:
    """List the newest changes made by people and keys. Submissions are not among them, and what workers do by
    themselves is not."""
