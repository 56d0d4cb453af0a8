"""Dead letters: what failed since when, with which reason? Send it again, or drop it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from dispatcher.letters.book import LetterState
from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import counted, listed
from fairlane.figures.rows import GROUP_FIELDS, fields_of
from producers.outcomes.letter_rows import MESSAGE, STATES
from producers.outcomes.record import ReasonGroup, TargetFilter
from web.console.given import seconds, texts
from web.console.page import Done, Form, Page, Plan, Visit

ROWS = 200
MAX_NAMED = 5
_UNSENT = (LetterState.OPEN, LetterState.REPLAYING)


def read(visit: Visit) -> dict[str, Any]:
    state = visit.query.get("state", "open")
    groups = visit.desks.letters.letters(_chosen(visit.query), state)
    rows = fields_of(groups, GROUP_FIELDS)
    # they are read from the topic each time: not every two seconds
    return {
        "rows": rows,
        "groups": groups[:ROWS],
        "state": state,
        "states": STATES,
        "live": False,
        "total": _total(groups),
    }


def _chosen(given: Any) -> TargetFilter:
    fields: dict[str, Any] = texts(given, "task", "app", "channel", "error")
    if since := given.get("since", "").strip():
        fields["since"] = _moment(since)
    if given.get("without_task"):
        fields["without_task"] = True
    return TargetFilter(**fields)


def _moment(text: str) -> datetime:
    """Return a time of RFC 3339, or so long ago."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC) - timedelta(seconds=seconds(text, "since"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _total(groups: list[ReasonGroup]) -> str:
    messages = sum(group.count for group in groups if group.outcome == MESSAGE)
    targets = sum(group.count for group in groups) - messages
    return counted(targets, "target") + (f" and {counted(messages, 'message')}" if messages else "")


def _plan(visit: Visit, *, again: bool) -> Plan:
    groups = visit.desks.letters.letters(_named(visit), "all" if again else LetterState.OPEN)
    if again:  # those that were begun are finished
        groups = [group for group in groups if group.state in _UNSENT and group.outcome != MESSAGE]
    if not groups:
        raise InvalidInput("No open letter is like that.", "Look at the list again, also at other states.")
    tasks = sorted({group.task for group in groups if group.task})
    lines = [f"{group.count:,} of task {group.task or '-'}: {group.reason or group.outcome}" for group in groups]
    lines = [f"They belong to {counted(len(tasks), 'task')}: {listed(tasks, MAX_NAMED)}.", *lines[:MAX_NAMED]]
    if again:
        lines.append(
            "For each task a new one is made, with its message as last edited. Each letter is sent again once."
        )
    else:
        lines.append("They are never sent again. This cannot be taken back.")
    title = f"{'Send again' if again else 'Drop'} {_total(groups)}"
    return Plan(title, lines, tasks=len(tasks), targets=sum(group.count for group in groups))


def _send_again(visit: Visit) -> Done:
    made = visit.desks.letters.replay(_named(visit), None)
    targets = sum(each.targets for each in made)
    return Done(
        f"{counted(targets, 'target')} is sent again by {counted(len(made), 'new task')}.",
        tasks=[each.replay for each in made],
    )


def _drop(visit: Visit) -> Done:
    return Done(f"{counted(visit.desks.letters.drop(_named(visit), None), 'letter')} dropped.")


def _named(visit: Visit) -> TargetFilter:
    """Return the filter of a form. Raises InvalidInput if it is empty."""
    chosen = _chosen(visit.form)
    if chosen == TargetFilter():
        raise InvalidInput(
            "The filter is empty, so it would select all dead letters.", "Give a task, an error or a time."
        )
    return chosen


PAGE = Page(
    name="letters", path="/dead-letters", title="Dead letters", action="letters.list", read=read,
    forms={
        "send": Form(plan=lambda visit: _plan(visit, again=True), apply=_send_again),
        "drop": Form(plan=lambda visit: _plan(visit, again=False), apply=_drop),
    },
)  # fmt: skip
