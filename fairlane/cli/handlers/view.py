"""Read the view in Redis itself: `fairlane worker list` and `registry status`."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import click

from backends.redis.epochs import Epoch, Epochs
from backends.redis.skipped_records import SkippedRecord, SkippedRecords
from backends.redis.view import open_view
from backends.redis.workers import Workers
from fairlane.cli.base.output import Output
from fairlane.cli.base.settings import settings_of
from fairlane.figures.rows import worker_fields
from fairlane.screen.render import workers_table

MAX_SHOWN = 10
"""Maximum number of skipped records listed per topic."""


def list_workers(ctx: click.Context, output: Output, *, everybody: bool) -> None:
    with closing(open_view(settings_of(ctx).redis)) as view:
        beats, now_ms = Workers(view).workers(), view.now_ms()
    shown = [beat for beat in beats if everybody or beat.state != "stopped"]
    fields = [worker_fields(beat, now_ms) for beat in shown]
    output.emit(fields, lambda: workers_table(shown, fields))


def status(ctx: click.Context, output: Output) -> None:
    settings = settings_of(ctx)
    with closing(open_view(settings.redis)) as view:
        skipped = SkippedRecords(view).by_topic(settings.pulsar.outcome_partitions)
        shown = {topic: shown_of(kept) for topic, kept in skipped.items()}
        output.emit_record({**epoch_fields(Epochs(view).epoch()), "counters": view.stats(), "passed_over": shown})


def shown_of(kept: Sequence[SkippedRecord]) -> dict[str, Any]:
    """Return the number of skipped records of a topic, and the first of them."""
    first = {each.position: f"{each.reason} (by {each.reader})" for each in kept[:MAX_SHOWN]}
    return {"records": len(kept), **first}


def epoch_fields(epoch: Epoch | None) -> dict[str, Any]:
    if epoch is None:
        return {"epoch": None, "complete": False, "grants": False}
    return {
        "epoch": epoch.id,
        "form": epoch.form,
        "address": epoch.address,
        "moved_to": epoch.foreign,
        "broken": epoch.broken,
        "started_ms": epoch.started_ms,
        "complete": epoch.ready,
        "grants": epoch.grants,
        "wait_ms": epoch.wait_ms,
        "topics": epoch.partitions + 1,
        "topics_read": len(epoch.read),
    }
