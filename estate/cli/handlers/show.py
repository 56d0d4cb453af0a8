"""`fairlane estate show`: tables of brokers, bookies, metadata and stages, and what is wrong."""

import time
from dataclasses import asdict

import click
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.text import Text

from dispatcher.model.values import percent
from estate.view import EstateView, EstateViewer, Row
from fairlane.cli.base.exit_codes import FAILURE, OK
from fairlane.cli.base.output import Output
from fairlane.cli.base.settings import settings_of
from fairlane.screen.console import GREEN, ORANGE, RED
from fairlane.screen.fields import Kind
from fairlane.screen.table import Column, record_of, table_of

_STYLES = {
    "up": GREEN,
    "leader": GREEN,
    "writable": GREEN,
    "read-only": ORANGE,
    "unknown": ORANGE,
    "slow": RED,
    "gone": RED,
    "no answer": RED,
}
_STATE = Column("state", kind=Kind.ID, style=lambda state: _STYLES.get(state, ""))
_BROKER_COLUMNS = (
    Column("broker", kind=Kind.ID), _STATE, "cpu", "direct_memory", Column("bytes_in", "in/s"),
    Column("bytes_out", "out/s"), "bundles", "lanes", Column("publish_p99_ms", "publish p99"), "throttled",
    "cache_hits", "guard",
)  # fmt: skip
_BOOKIE_COLUMNS = (
    Column("bookie", kind=Kind.ID), _STATE, "rack", "disk", Column("write_p99_ms", "p99 as brokers see it"),
    Column("own_write_p99_ms", "own p99"), Column("fsync_p99_ms", "fsync p99"), "ledgers",
    "guard",
)  # fmt: skip
_STAGE_COLUMNS = (
    Column("stage", kind=Kind.ID), Column("p50_ms", "p50"), Column("p99_ms", "p99"), "share", "worst",
)  # fmt: skip
_PARTS = ("cpu", "direct_memory", "cache_hits", "disk", "share")
_BYTES = ("bytes_in", "bytes_out")


def show(ctx: click.Context, output: Output, *, watch: bool, every: float, count: int | None, stages: bool) -> int:
    with EstateViewer(settings_of(ctx), with_stages=stages) as viewer:
        view = viewer.look()
        _emit(view, output)
        looks = 1
        while watch and looks != count:
            time.sleep(every)
            view = viewer.look()
            if not output.as_json:
                click.clear()  # only on a terminal
            _emit(view, output)
            looks += 1
    return FAILURE if view.wrong else OK


def _emit(view: EstateView, output: Output) -> None:
    output.emit(view.document(), lambda: estate_tables(view))


def estate_tables(view: EstateView) -> RenderableType:
    """Return the tables of one look, and the line that says what is wrong."""
    tables: list[RenderableType] = [
        table_of(map(_written, view.brokers), _BROKER_COLUMNS, ("cache_hits", "throttled", "bundles")),
        table_of(map(_written, view.bookies), _BOOKIE_COLUMNS, ("own_write_p99_ms", "ledgers", "rack")),
        record_of({f"metadata {name}": value for name, value in _written(view.metadata).items()}),
    ]
    if view.stages is not None:
        rows = [_written(asdict(stage)) for stage in view.stages]
        tables.append(table_of(rows, _STAGE_COLUMNS) if rows else Text("no stage has traffic"))
    lines = [part for table in tables for part in (table, Text())]
    return Group(*lines, _wrong(view.wrong))


def _wrong(wrong: list[str]) -> Text:
    if not wrong:
        return Text("nothing is wrong", style=GREEN)
    return Text(f"what is wrong: {'; '.join(wrong)}", style=RED)


def _written(row: Row) -> Row:
    """Return a row with fractions and bytes as texts; a node that does not answer has the reason beside its state."""
    written = dict(row)
    written |= {name: percent(row[name]) for name in _PARTS if name in row}
    written |= {name: decimal(round(row[name])) for name in _BYTES if row.get(name) is not None}
    return written
