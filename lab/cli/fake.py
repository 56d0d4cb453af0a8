"""`fairlane fake`: FCM and APNs on this machine."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from backends.extras import require_packages
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.options import F, with_options
from fairlane.cli.base.output import output_option


@click.group(
    cls=Noun, handlers="lab.cli.handlers.fake", requires=partial(require_packages, "lab", "cryptography", "hpack")
)
def fake() -> None:
    """FCM and APNs on this machine, over TLS with HTTP/2 or HTTP/1.1, to rehearse deliveries.

    A fake refuses what the provider would refuse, and knows which targets it accepted: never, once, twice. Everything
    else it does by rules (docs/delivery.md): shares of each kind of answer, Retry-After, latency, limits of streams,
    GOAWAY, resets, half-open connections, expired tokens, quotas. Rules come from a file (--rules) or, while it runs,
    by PUT /_fake/rules.
    """


def _serving_options(port: int) -> Callable[[F], F]:
    """Give a command the options that all fakes have."""
    a_file, a_folder = click.Path(dir_okay=False, path_type=Path), click.Path(file_okay=False, path_type=Path)
    seeds = click.IntRange(0, 2**63 - 1)
    return with_options(
        click.option("--host", default="127.0.0.1", help="Address to serve on."),
        click.option("--port", type=click.IntRange(0, 65_535), default=port, help="0 picks a free port."),
        click.option(
            "--rules",
            type=a_file,
            help="TOML or JSON file of rules that decide how it answers; docs/delivery.md describes them.",
        ),
        click.option(
            "--folder", type=a_folder, help="Where to write keys and certificates.  [default: below the setting `home`]"
        ),
        click.option(
            "--ca-file", type=a_file, help="Where to write the CA certificate.  [default: ca.pem in the folder]"
        ),
        click.option("--seed", type=seeds, default=1, help="Seed of all random choices."),
    )


@fake.command()
@_serving_options(2197)
@click.option("--topic", default="com.example.app", help="APNs topic: the bundle id of the app.")
@output_option
def apns() -> None:
    """Run a fake APNs server until SIGTERM or SIGINT.

    Prints the address, the file with its CA certificate, a fresh signing key with its ids, a client certificate, which
    is accepted instead of a provider token, and the settings of an app that sends to it. On exit it prints how many
    notifications it accepted.
    """


@fake.command()
@_serving_options(8443)
@click.option("--project-id", default="demo", help="Name of the Firebase project.")
@output_option
def fcm() -> None:
    """Run a fake FCM server until SIGTERM or SIGINT.

    Prints the address, the file with its CA certificate, a service account whose tokens this server issues, and the
    settings of an app that sends to it: copy those into yours. On exit it prints how many messages it accepted.
    """
