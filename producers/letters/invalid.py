"""The feed of invalid targets: which to take, and each once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import msgspec

from dispatcher.channels.submission.address import address_form
from dispatcher.model.flow_pause import FlowPause, flow_name
from dispatcher.wire.invalid import InvalidTarget, Reported
from producers.letters.selection import Period

IsWithheld = Callable[[InvalidTarget], bool]
"""Whether a report is doubted, such as in a minute of a flow that is suspected to have a wrong environment."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(InvalidTarget).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidFilter(Period):
    """Selects the invalid targets that match all fields; the time is when it was recorded. None matches any."""

    app: str | None = None
    """The app whose task had the target."""
    channel: str | None = None
    """The channel that reported it."""

    def takes(self, one: InvalidTarget) -> bool:
        return self.app in (None, one.app) and self.channel in (None, one.channel) and self.covers(one.seen_ms)


def chosen_targets(
    reported: Iterable[Reported], chosen: InvalidFilter, is_withheld: IsWithheld = lambda _: False
) -> Iterator[InvalidTarget]:
    """Yield the targets that the filter matches and that are not withheld, as often as they were reported, in the
    canonical form of their channels: records of 0.2 have them as they were given."""
    return (_canonical(one.target) for one in reported if chosen.takes(one.target) and not is_withheld(one.target))


def _canonical(one: InvalidTarget) -> InvalidTarget:
    target = str(address_form(one.channel).of(one.target))
    return one if target == one.target else msgspec.structs.replace(one, target=target)


def doubted_by(flows: Mapping[str, FlowPause]) -> IsWithheld:
    """Return what doubts the reports of suspected flows. flows: the last entry of each."""

    def is_doubted(one: InvalidTarget) -> bool:
        pause = flows.get(flow_name(one.channel, one.app))
        return pause is not None and pause.doubts(one.seen_ms)

    return is_doubted


def latest(targets: Iterable[InvalidTarget]) -> Iterator[InvalidTarget]:
    """Yield each target of an app and a channel once, with its latest time of death.

    They are collected in a temporary file, so that memory does not grow with their number.
    """
    import sqlite3  # rarely needed

    with closing(sqlite3.connect("")) as file:
        file.execute("CREATE TABLE dead (app, channel, target, died, row, PRIMARY KEY (app, channel, target))")
        file.executemany(
            "INSERT INTO dead VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET died = excluded.died, row = excluded.row WHERE excluded.died > died",
            ((one.app, one.channel, one.target, one.died_ms, _encode(one)) for one in targets),
        )
        for (row,) in file.execute("SELECT row FROM dead"):
            yield _decode(row)
