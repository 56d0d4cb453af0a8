"""`fairlane fake`: FCM and APNs on this machine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backends.extras import require_packages
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.invocation import Invocation, pass_invocation
from fairlane.cli.base.options import F, with_options
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from lab.fake.certificates import TlsFiles
    from lab.fake.messages import FakeProvider
    from lab.fake.site import FakeSite

_OF_AN_APP = ("credentials", "url", "ca_file", "key_id", "team_id", "topic")
"""Settings of an app that a fake serves."""


@click.group(cls=CommandGroup)
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
@_serving_options(8443)
@click.option("--project-id", default="demo", help="Name of the Firebase project.")
@output_option
@pass_invocation
def fcm(invocation: Invocation, /, project_id: str, output: Output, **given: Any) -> None:
    """Run a fake FCM server until SIGTERM or SIGINT.

    Prints the address, the file with its CA certificate, a service account whose tokens this server issues, and the
    settings of an app that sends to it: copy those into yours. On exit it prints how many messages it accepted.
    """
    require_packages("lab", "cryptography", "hpack")
    from lab.fake.making import make_fcm

    folder = given["folder"] or invocation.settings().home_folder / "fake" / "fcm"
    made = make_fcm(project_id)
    site, files = _site(made.provider, given), _tls_files(folder, given, asks=False)

    def ready(url: str) -> None:
        account = folder / "service-account.json"
        made.write_account(account, url)
        _show(output, "fcm", url, files, {"project_id": project_id, "credentials": f"file:{account}"})

    _run(site, files, given, ready)


@fake.command()
@_serving_options(2197)
@click.option("--topic", default="com.example.app", help="APNs topic: the bundle id of the app.")
@output_option
@pass_invocation
def apns(invocation: Invocation, /, topic: str, output: Output, **given: Any) -> None:
    """Run a fake APNs server until SIGTERM or SIGINT.

    Prints the address, the file with its CA certificate, a fresh signing key with its ids, a client certificate, which
    is accepted instead of a provider token, and the settings of an app that sends to it. On exit it prints how many
    notifications it accepted.
    """
    require_packages("lab", "cryptography", "hpack")
    from lab.fake.making import KEY_ID, TEAM_ID, make_apns

    folder = given["folder"] or invocation.settings().home_folder / "fake" / "apns"
    key = folder / f"AuthKey_{KEY_ID}.p8"
    site, files = _site(make_apns(topic, key), given), _tls_files(folder, given, asks=True)

    def ready(url: str) -> None:
        more = {"topic": topic, "key_id": KEY_ID, "team_id": TEAM_ID, "credentials": f"file:{key}"}
        _show(output, "apns", url, files, {**more, "client_certificate": f"file:{files.client}"})

    _run(site, files, given, ready)


def _site(provider: "FakeProvider", given: dict[str, Any]) -> "FakeSite":
    from lab.fake.making import STREAMS
    from lab.fake.rules import FakeRules, load_rules
    from lab.fake.site import FakeSite

    rules = load_rules(given["rules"], provider.table) if given["rules"] else FakeRules()
    return FakeSite(provider, rules, seed=given["seed"], streams=STREAMS[provider.name])


def _tls_files(folder: Path, given: dict[str, Any], *, asks: bool) -> "TlsFiles":
    from lab.fake.certificates import make_tls_files

    return make_tls_files(folder, given["host"], given["ca_file"], asks=asks)


def _run(site: "FakeSite", files: "TlsFiles", given: dict[str, Any], ready: Callable[[str], None]) -> None:
    from lab.fake.server import run_fake

    run_fake(site, files, given["host"], given["port"], ready)
    accounts = site.accounts
    accepted, targets = accounts.accepted.total(), len(accounts.accepted)
    say(f"{accounts.answers.total():,} requests; {accepted:,} messages accepted, for {targets:,} targets")


def _show(output: Output, channel: str, url: str, files: "TlsFiles", more: dict[str, str]) -> None:
    served = {"url": url, "ca_file": str(files.authority), **more}
    output.emit_record(served)
    lines = [f"{name} = {json.dumps(served[name])}" for name in _OF_AN_APP if name in served]
    say("\n".join(["settings of an app, such as shop:", f"[channels.{channel}.apps.shop]", *lines]))
    say(f"serving; live: GET {url}/_fake/counts, GET {url}/_fake/payloads, PUT {url}/_fake/rules; stop with Ctrl-C")
