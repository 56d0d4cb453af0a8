"""Where a task's time went: causes that held it back, in ms, that add up to its age."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dispatcher.served import Served
from dispatcher.view import Globals, TaskView

SCHEDULED, PAUSED, HELD, UNKNOWN = "scheduled", "paused", "held_until_sealed", "unknown"
CHANNEL_PAUSED = "channel_paused"
NO_CHANNEL = "no_channel"
MEANINGS = {
    SCHEDULED: "its start time had not come",
    PAUSED: "it was paused",
    HELD: "it waits for its whole audience",
    CHANNEL_PAUSED: "its channel was paused",
    NO_CHANNEL: "no worker has its channel",
    "tier_share": "the capacity went to other tiers, which had their shares",
    "task_weight": "the capacity went to other tasks of its tier, by their weights",
    "app_weight": "the capacity went to other apps, by their weights",
    "task_cap": "its own cap held it back",
    "cap_total": "it had its part of the capacity and was sent at that pace",
    "no_worker": "no worker held its lane",
    "retry_wait": "all that was left of it waited to be tried again",
    "sending": "it was sent as fast as workers asked for it",
    UNKNOWN: "not counted: being published or on its way, or nobody asked for it",
}
"""Cause -> what a person is told. `cap:<pool>` is the cap of a pool."""


class Part(NamedTuple):
    """One cause and its part of the task's age."""

    cause: str
    ms: int

    @property
    def meaning(self) -> str:
        """In words."""
        if self.cause.startswith("cap:"):
            return f"the cap of {in_words(self.cause[4:])} held it back"
        return MEANINGS.get(self.cause, self.cause)


def in_words(pool: str) -> str:
    """A pool that has a cap: `channel/push`, `app/shop` or `app_channel/shop/push`."""
    kind, _, names = pool.partition("/")
    if kind == "app_channel":
        app, _, channel = names.partition("/")
        return f"app {app} on channel {channel}"
    return f"{kind} {names}"


class Why(NamedTuple):
    """Where a task's time went."""

    task: str
    """Its id."""
    state: str
    """As in a TaskView."""
    age_ms: int
    """From the task's acceptance to now, or to its end."""
    parts: list[Part]
    """The causes. They add up to the age, the largest first."""
    now: str
    """What holds it back at this moment, as far as the registry, the settings and the workers tell; empty if nothing
    does, or it has ended."""
    channel: str = ""
    """The task's channel."""


class Switch(NamedTuple):
    """A pause or a resume, at a wall time."""

    at_ms: int
    paused: bool


class Pauses(NamedTuple):
    """When a task and its channel were paused and resumed, each in order."""

    of_task: Sequence[Switch] = ()
    of_channel: Sequence[Switch] = ()


def switches_of(text: str) -> list[Switch]:
    """From the field that the registry keeps, in the topic's order."""
    entries = (entry.partition("=")[2].split("@") for entry in text.split())
    return [Switch(int(at_ms), value == "1") for value, at_ms in entries]


def counted_of(text: str) -> dict[str, int]:
    """ms by cause, from the field that the ledger keeps (quotas/lua/causes.lua)."""
    return {cause: int(ms) for cause, _, ms in (entry.rpartition("=") for entry in text.split())}


def why(
    task: TaskView,
    counted: Mapping[str, int],
    pauses: Pauses,
    settings: Globals,
    now_ms: int,
    served: Served | None = None,
) -> Why:
    """counted: ms by cause, as the ledger counts them while it grants. What the registry knows is exact and comes
    first; should all be more than the age (clocks, causes at once), what was counted is cut in proportion."""
    end_ms = max(task.created_ms, task.finished_ms or now_ms)
    age_ms = end_ms - task.created_ms
    known = {SCHEDULED: _scheduled_ms(task, end_ms), **_paused(task, pauses, end_ms)}
    rest_ms = age_ms - sum(known.values())
    if task.hold_until_sealed and not task.sealed and not task.ended:
        known[HELD], rest_ms = rest_ms, 0
    known |= _cut(counted, rest_ms, known.keys())
    known[UNKNOWN] = age_ms - sum(known.values())
    parts = [Part(cause, ms) for cause, ms in known.items() if ms > 0]
    parts.sort(key=lambda part: (part.cause == UNKNOWN, -part.ms))
    return Why(task.id, task.state, age_ms, parts, held_now(task, settings, served), task.channel)


def _cut(counted: Mapping[str, int], rest_ms: int, taken: Iterable[str]) -> dict[str, int]:
    others = {cause: ms for cause, ms in counted.items() if cause not in taken and ms > 0}
    total = sum(others.values())
    return others if total <= rest_ms else {cause: ms * max(0, rest_ms) // total for cause, ms in others.items()}


def _scheduled_ms(task: TaskView, end_ms: int) -> int:
    return max(0, min(task.start_ms, end_ms) - task.created_ms)


def _paused(task: TaskView, pauses: Pauses, end_ms: int) -> dict[str, int]:
    """ms since the start in which the task was paused, and in which only its channel was."""
    begin_ms = min(max(task.created_ms, task.start_ms), end_ms)
    own, channel = (_spans(switches, begin_ms, end_ms) for switches in pauses)
    own_ms = _covered_ms(own, begin_ms)
    return {PAUSED: own_ms, CHANNEL_PAUSED: _covered_ms(own + channel, begin_ms) - own_ms}


def _spans(switches: Sequence[Switch], begin_ms: int, end_ms: int) -> list[tuple[int, int]]:
    """From each pause to its resume, as far as they lie between begin and end; one that was not resumed lasts until the
    end."""
    spans: list[tuple[int, int]] = []
    since: int | None = None
    for at_ms, paused in [*switches, Switch(end_ms, False)]:
        if paused and since is None:
            since = at_ms
        elif not paused and since is not None:
            spans.append((max(since, begin_ms), min(at_ms, end_ms)))
            since = None
    return spans


def _covered_ms(spans: Sequence[tuple[int, int]], begin_ms: int) -> int:
    """Time in any of the spans."""
    total, until = 0, begin_ms
    for first, last in sorted(spans):
        total += max(0, last - max(first, until))
        until = max(until, last)
    return total


def held_now(task: TaskView, settings: Globals, served: Served | None = None) -> str:
    """What holds a task back at this moment as far as the registry, the settings and, where they are known, the workers
    tell; empty if nothing does."""
    if task.ended or not task.targets.pending:
        return ""
    if task.state in (SCHEDULED, PAUSED):
        return task.state
    if task.channel in settings.paused_channels:
        return CHANNEL_PAUSED
    if task.hold_until_sealed and not task.sealed:
        return HELD
    return NO_CHANNEL if served is not None and served.lacks(task.channel) else ""
