"""`fairlane fake fcm` and `apns`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import settings_of
from lab.fake.certificates import TlsFiles, make_tls_files
from lab.fake.making import KEY_ID, STREAMS, TEAM_ID, make_apns, make_fcm
from lab.fake.messages import FakeProvider
from lab.fake.rules import FakeRules, load_rules
from lab.fake.server import run_fake
from lab.fake.site import FakeSite

_OF_AN_APP = ("credentials", "url", "ca_file", "key_id", "team_id", "topic")
"""Settings of an app that a fake serves."""


def fcm(ctx: click.Context, /, project_id: str, output: Output, **given: Any) -> None:
    folder = given["folder"] or settings_of(ctx).home_folder / "fake" / "fcm"
    made = make_fcm(project_id)
    site, files = _site(made.provider, given), _tls_files(folder, given, asks=False)

    def ready(url: str) -> None:
        account = folder / "service-account.json"
        made.write_account(account, url)
        _show(output, "fcm", url, files, {"project_id": project_id, "credentials": f"file:{account}"})

    _run(site, files, given, ready)


def apns(ctx: click.Context, /, topic: str, output: Output, **given: Any) -> None:
    folder = given["folder"] or settings_of(ctx).home_folder / "fake" / "apns"
    key = folder / f"AuthKey_{KEY_ID}.p8"
    site, files = _site(make_apns(topic, key), given), _tls_files(folder, given, asks=True)

    def ready(url: str) -> None:
        more = {"topic": topic, "key_id": KEY_ID, "team_id": TEAM_ID, "credentials": f"file:{key}"}
        _show(output, "apns", url, files, {**more, "client_certificate": f"file:{files.client}"})

    _run(site, files, given, ready)


def _site(provider: FakeProvider, given: dict[str, Any]) -> FakeSite:
    rules = load_rules(given["rules"], provider.table) if given["rules"] else FakeRules()
    return FakeSite(provider, rules, seed=given["seed"], streams=STREAMS[provider.name])


def _tls_files(folder: Path, given: dict[str, Any], *, asks: bool) -> TlsFiles:
    return make_tls_files(folder, given["host"], given["ca_file"], asks=asks)


def _run(site: FakeSite, files: TlsFiles, given: dict[str, Any], ready: Callable[[str], None]) -> None:
    run_fake(site, files, given["host"], given["port"], ready)
    accounts = site.accounts
    accepted, targets = accounts.accepted.total(), len(accounts.accepted)
    say(f"{accounts.answers.total():,} requests; {accepted:,} messages accepted, for {targets:,} targets")


def _show(output: Output, channel: str, url: str, files: TlsFiles, more: dict[str, str]) -> None:
    served = {"url": url, "ca_file": str(files.authority), **more}
    output.emit_record(served)
    lines = [f"{name} = {json.dumps(served[name])}" for name in _OF_AN_APP if name in served]
    say("\n".join(["settings of an app, such as shop:", f"[channels.{channel}.apps.shop]", *lines]))
    say(f"serving; live: GET {url}/_fake/counts, GET {url}/_fake/payloads, PUT {url}/_fake/rules; stop with Ctrl-C")
