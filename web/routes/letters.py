"""Dead letters and invalid targets over HTTP."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from msgspec import Meta

from fairlane.figures.rows import GROUP_FIELDS, INVALID_FIELDS, picked
from producers.outcomes.record import TargetFilter
from web.routes.inputs import Input, Page, moment
from web.routing import Answer, Call, Route, rows


class Which(Input):
    """Which letters."""

    task: str | None = None
    app: str | None = None
    channel: str | None = None
    error: str | None = None
    """A part of the reason."""
    since: str | None = None
    """A time of RFC 3339. Without a task and a time: the last day."""
    until: str | None = None

    def chosen(self) -> TargetFilter:
        """Return the filter."""
        times: dict[str, Any] = {name: moment(getattr(self, name), name) for name in ("since", "until")}
        return TargetFilter(**picked(self, ("task", "app", "channel", "error")), **times)


class Listed(Which):
    state: str = "open"
    """open, replaying, replayed, dropped or all."""


class Marked(Which):
    limit: Annotated[int, Meta(ge=1)] | None = None
    """The maximum number of letters."""


class Invalid(Page):
    app: str | None = None
    channel: str | None = None
    since: str | None = None


def list_letters(call: Call) -> Answer:
    groups = call.desks.letters.letters(call.query.chosen(), call.query.state)
    return rows(groups, partial(picked, fields=GROUP_FIELDS))


def replay(call: Call) -> Answer:
    made = call.desks.letters.replay(call.body.chosen(), call.body.limit)
    return Answer({"replays": [asdict(each) for each in made]})


def drop(call: Call) -> Answer:
    return Answer({"dropped": call.desks.letters.drop(call.body.chosen(), call.body.limit)})


def invalid(call: Call) -> Answer:
    asked: Invalid = call.query
    chosen = TargetFilter(app=asked.app, channel=asked.channel, since=moment(asked.since, "since"))
    return rows(call.desks.letters.invalid(chosen), partial(picked, fields=INVALID_FIELDS), asked.limit)


ROUTES = (
    Route(method="GET", path="/v1/dead-letters", action="letters.list", handle=list_letters, query=Listed),
    Route(method="POST", path="/v1/dead-letters/replay", action="letters.replay", handle=replay, body=Marked),
    Route(method="POST", path="/v1/dead-letters/drop", action="letters.drop", handle=drop, body=Marked),
    Route(method="GET", path="/v1/invalid", action="invalid.list", handle=invalid, query=Invalid),
)
