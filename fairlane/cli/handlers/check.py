"""`fairlane channel check`."""

import asyncio

import click

from backends.extras import require_packages
from fairlane.cli.base.connect import settings_of
from fairlane.cli.base.output import Output, say


def check(ctx: click.Context, output: Output, name: str, app: str, target: str | None) -> None:
    require_packages("push", "pycurl", "certifi", "google.auth", "cryptography")
    from consumers.delivery.push.check import check_app

    values = settings_of(ctx).channel_settings().get(name, {})
    result = asyncio.run(check_app(name, values, app, target))
    output.emit_record({field: getattr(result, field) for field in result.__struct_fields__})
    say(f"{app} may send through {name}" + (" to this target" if target else ""))
