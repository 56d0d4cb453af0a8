"""`fairlane config show`, `tune producer` and `channel check`: settings. None of them needs Pulsar or Redis."""

import asyncio
from dataclasses import asdict

import click

from backends.extras import require_packages
from fairlane.cli.base.output import Output, say
from fairlane.cli.base.settings import options_in, settings_of
from fairlane.settings import explain_settings
from producers.publish.tuning import FIXED, ProducerNeeds, tune


def show(ctx: click.Context, output: Output) -> None:
    rows = explain_settings(settings_of(ctx), options_in(ctx))
    fields = [asdict(row) for row in rows]
    # As users write them: numbers without separators.
    shown = [
        {**row, "value": str(row["value"]) if type(row["value"]) in (int, float) else row["value"]} for row in fields
    ]
    output.emit_rows(fields, ["name", "value", "source", "description"], shown=shown)


def tune_producer(
    _: click.Context, output: Output, partitions: int, rate: float, message_bytes: int, memory: int, receiver_queue: int
) -> None:
    tuning = tune(ProducerNeeds(partitions, message_bytes, rate, memory, receiver_queue))
    settings: dict[str, dict[str, object]] = {
        name: {"value": getattr(tuning.settings, name), "reason": reason} for name, reason in tuning.reasons.items()
    }
    settings |= {name: {"value": value, "reason": reason} for name, (value, reason) in FIXED.items()}
    document = {"need": asdict(tuning.need), "settings": settings, "remarks": list(tuning.remarks)}
    output.emit_document(document, [{"setting": name, **chosen} for name, chosen in settings.items()])
    for remark in tuning.remarks:
        say(remark)


def check(ctx: click.Context, output: Output, name: str, app: str, target: str | None) -> None:
    require_packages("push", "pycurl", "certifi", "google.auth", "cryptography")
    from consumers.delivery.push.check import check_app

    values = settings_of(ctx).channel_settings().get(name, {})
    result = asyncio.run(check_app(name, values, app, target))
    output.emit_record({field: getattr(result, field) for field in result.__struct_fields__})
    say(f"{app} may send through {name}" + (" to this target" if target else ""))
