"""Dead letters: what failed since when, with which reason? Send it again, or drop it."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import counted
from fairlane.figures.rows import GROUP_FIELDS, fields_of
from producers.outcomes.letter_rows import MESSAGE, STATES
from producers.outcomes.record import ReasonGroup, TargetFilter
from web.console.given import seconds, texts
from web.console.page import Done, Form, Page, Plan, Visit

ROWS = 200
_FIRST = datetime.fromtimestamp(0, UTC)


def read(visit: Visit) -> dict[str, Any]:
    state = visit.query.get("state", "open")
    groups = visit.desks.letters.letters(_chosen(visit.query), state)
    shown = {"rows": fields_of(groups, GROUP_FIELDS), "groups": groups[:ROWS], "state": state, "states": STATES}
    return {**shown, "total": _total(groups), "still": True}  # reading their topic takes too long to be repeated


def _chosen(given: Mapping[str, str]) -> TargetFilter:
    fields = texts(given, "task", "app", "channel", "error")
    return TargetFilter(**fields, since=_since(given), without_task=bool(texts(given, "without_task")))


def _since(given: Mapping[str, str]) -> datetime | None:
    """Return a time of RFC 3339, in UTC unless it says another zone, or so long ago; 1970 for earlier ones."""
    try:
        moment = datetime.fromisoformat(given.get("since", "").strip())
    except ValueError:
        ago_s = seconds(given, "since")
        return None if ago_s is None else datetime.now(UTC) - timedelta(seconds=min(ago_s, time.time()))
    return max(_FIRST, moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _total(groups: Sequence[ReasonGroup]) -> str:
    messages = sum(group.count for group in groups if group.outcome == MESSAGE)
    targets = sum(group.count for group in groups) - messages
    return counted(targets, "target") + (f" and {counted(messages, 'message')}" if messages else "")


def _plan(visit: Visit, *, sends: bool) -> Plan:
    groups = visit.desks.letters.letters(_named(visit), "all" if sends else "open")
    if sends:  # what was begun is ended
        groups = [group for group in groups if group.state in ("open", "replaying") and group.outcome != MESSAGE]
    if not groups:
        raise InvalidInput("No open letter is like that.", "Look at the list again, also at other states.")
    tasks, total = {group.task for group in groups if group.task}, _total(groups)
    reasons = [f"{group.count:,} of {group.task or 'no task'}: {group.reason or group.outcome}" for group in groups[:5]]
    after = (
        "Each task gets a new task with its message as last edited. A letter is sent again once."
        if sends
        else "They are never sent again. This cannot be taken back."
    )
    lines = [f"{total} of {counted(len(tasks), 'task')}, such as:", *reasons, after]
    title = f"{'Send' if sends else 'Drop'} {total}{' again' if sends else ''}"
    return Plan(title, lines=lines, tasks=len(tasks), targets=sum(group.count for group in groups))


def _send(visit: Visit) -> Done:
    made = visit.desks.letters.replay(_named(visit), None)
    total = counted(sum(each.targets for each in made), "target")
    return Done(f"{total} in {counted(len(made), 'new task')}.", tasks=[each.replay for each in made])


def _drop(visit: Visit) -> Done:
    return Done(f"{counted(visit.desks.letters.drop(_named(visit), None), 'letter')} dropped.")


def _named(visit: Visit) -> TargetFilter:
    """Return the filter of a form. Raises InvalidInput if it is empty."""
    if (chosen := _chosen(visit.form)) == TargetFilter():
        raise InvalidInput("The filter is empty, so it would select all dead letters.", "Give a task or an error.")
    return chosen


PAGE = Page(
    name="letters", path="/dead-letters", title="Dead letters", action="letters.list", read=read,
    forms={
        "send": Form(plan=partial(_plan, sends=True), apply=_send),
        "drop": Form(plan=partial(_plan, sends=False), apply=_drop),
    },
)  # fmt: skip
