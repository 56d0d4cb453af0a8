"""A sentence on the whole service: is it healthy, what limits the rate, who is last and why, when is all done?"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from dispatcher.analysis.failing import FAILING
from dispatcher.analysis.served import WaitingTasks
from dispatcher.analysis.task_times import RETRY_WAIT
from dispatcher.analysis.why import AUDIENCE, CHANNEL_PAUSED, FLOW_PAUSED, HELD, NO_CHANNEL, NO_WORKER_RUNS, PAUSED
from dispatcher.model.flow_pause import PauseKind, flow_parts
from dispatcher.model.pools import Pool
from dispatcher.model.values import counted, moment
from dispatcher.model.view import Globals, TaskView, WorkerBeat

_HEADLINES = {
    "demand": "All is sent as it comes in",
    "capacity": "Sending at full capacity",
    "caps": "Caps hold back what waits",
    "workers": "More workers would send more",
}
_TRIED_AGAIN = "What waits is to be tried again"
_SAID_OF_ALL = (CHANNEL_PAUSED, FLOW_PAUSED, NO_CHANNEL, NO_WORKER_RUNS)


class Runbook(StrEnum):
    """A section of docs/runbooks.md, by its anchor."""

    NO_WORKER = "no-worker"
    BACKLOG = "backlog-does-not-move"
    FAILING = "failing-provider"
    INCOMPLETE = "incomplete-submission"
    PAUSED_FLOW = "paused-flow"
    FORGOTTEN_PAUSE = "forgotten-pause"
    NOT_STORED = "outcomes-not-stored"
    STUCK_TASK = "stuck-task"
    APP_LIMIT = "app-at-its-limit"


_RUNBOOKS = {PAUSED: Runbook.FORGOTTEN_PAUSE, HELD: Runbook.INCOMPLETE, AUDIENCE: Runbook.INCOMPLETE}
"""Runbooks by cause; the other causes share one."""


class Held(NamedTuple):
    """A task that waits, and what holds it back now; empty if that is not known."""

    task: TaskView
    cause: str  # as in dispatcher.analysis.why
    text: str  # the same in words


class Scene(NamedTuple):
    """The service at one moment. To a key of one app: its tasks, and nothing from `settings` on."""

    now_ms: int
    waiting: int  # targets without an outcome, but for those of scheduled tasks
    scheduled: int  # tasks
    last: Held | None  # the task that ends last
    endless: Sequence[Held] = ()  # tasks without a predicted end, or the first of them
    settings: Globals | None = None
    beats: Sequence[WorkerBeat] = ()
    serving: int = 0
    limited_by: str = ""  # as in Signals, like `missing`
    missing: Sequence[WaitingTasks] = ()
    tasks_of: Mapping[str, int] = {}  # live tasks by app


class Concern(NamedTuple):
    """Something that needs attention."""

    level: str  # bad or warn
    title: str
    text: str
    page: str  # of the console
    runbook: Runbook


class Verdict(NamedTuple):
    """The state of the service in one sentence. The sentence is `before`, the id of the last task, and `after`."""

    state: str  # ok, warn or bad
    headline: str
    before: str
    task: str
    after: str
    concerns: list[Concern]


def verdict(scene: Scene) -> Verdict:
    """Return the verdict on a service, or on the tasks of one app."""
    concerns = sorted(_concerns(scene), key=lambda concern: concern.level)
    headline = _HEADLINES.get(scene.limited_by, "Sending" if scene.last else "Waiting")
    if not scene.waiting:
        headline = "Nothing waits"
    if scene.waiting and scene.settings and not scene.serving:
        headline = "Nothing is sent"
    elif scene.limited_by == "workers":  # more workers would try, too
        causes = {held.cause for held in scene.endless}
        headline = "A channel fails" if FAILING in causes else _TRIED_AGAIN if RETRY_WAIT in causes else headline
    if concerns:
        headline += f": {counted(len(concerns), 'thing')} to look at"
    return Verdict(concerns[0].level if concerns else "ok", headline, *_sentence(scene), concerns)


def _sentence(scene: Scene) -> tuple[str, str, str]:
    if not scene.waiting:
        later = f"; {counted(scene.scheduled, 'task')} will start later" if scene.scheduled else ""
        return f"All that is due is sent{later}.", "", ""
    if scene.settings and not scene.serving:
        waits = "1 target waits" if scene.waiting == 1 else f"{scene.waiting:,} targets wait"
        return f"{waits}, and no worker serves.", "", ""
    if scene.last is None and not scene.endless:
        return f"{scene.waiting:,} targets wait; their end is not known yet.", "", ""
    task, cause, text = scene.last or scene.endless[0]
    because = f": {text}." if text else "."
    if scene.last is None:
        what = "nothing is sent of" if PAUSED in cause else "no end is in sight for"
        return f"{scene.waiting:,} targets wait, and {what} ", task.id, because
    what = "All that can be sent" if scene.endless else "All that waits"
    now = datetime.fromtimestamp(scene.now_ms / 1000, UTC)
    at = moment(scene.now_ms + 1000 * (task.eta_s or 0), now)
    return f"{what} will be sent by {at} UTC; ", task.id, f" is last{because}"


def _concerns(scene: Scene) -> Iterator[Concern]:
    yield from _of_providers(scene)
    named = (*_SAID_OF_ALL, FAILING) if scene.settings else (FAILING,)
    texts = Counter(text for _, cause, text in scene.endless if cause not in named)
    first = {text: task for task, _, text in reversed(scene.endless)}
    causes = {text: cause for _, cause, text in scene.endless}
    for text, tasks in texts.items():
        task = first[text]
        title = f"Task {task.id} of app {task.app} {'and others have' if tasks > 1 else 'has'} no end in sight"
        because = text or "no pause, cap or missing worker explains it"
        page = "/tasks?sort=-eta" if tasks > 1 else f"/tasks/{task.id}"
        if scene.settings and (pool := Pool.parse(causes[text].removeprefix("cap:"))):
            page = limits_at(pool)
        runbook = _RUNBOOKS.get(causes[text], Runbook.BACKLOG if text else Runbook.STUCK_TASK)
        yield Concern("warn", title, f"{because}.", page, runbook)
    if scene.settings is not None:
        yield from _of_workers(scene)
        yield from _of_settings(scene, scene.settings)


def _of_providers(scene: Scene) -> Iterator[Concern]:
    failing = [held for held in scene.endless if held.cause == FAILING]
    for channel, tasks in Counter(held.task.channel for held in failing).items():
        task, _, text = next(held for held in failing if held.task.channel == channel)
        waits = f"Task {task.id} of app {task.app} waits{', and others' if tasks > 1 else ''}"
        page = f"/tasks?channel={channel}&sort=-eta" if tasks > 1 else f"/tasks/{task.id}"
        yield Concern("bad", f"Channel {channel}: {text.removeprefix('its ')}", f"{waits}.", page, Runbook.FAILING)


def _of_workers(scene: Scene) -> Iterator[Concern]:
    if scene.waiting and not scene.serving:
        text = f"{scene.waiting:,} targets wait, and nothing is lost."
        yield Concern("bad", "No worker serves", text, "/workers", Runbook.NO_WORKER)
    for each in scene.missing:
        text = f"{counted(each.tasks, 'task')} with {each.targets:,} targets wait for it."
        yield Concern("bad", f"No worker has channel {each.channel}", text, "/workers", Runbook.NO_WORKER)
    for beat in scene.beats:
        if beat.state in ("suspect", "lost"):
            others = "others take over its lanes" if scene.serving else "no other worker is there to take over"
            text = f"Its heartbeats are missing; {others}."
            yield Concern("warn", f"Worker {beat.id} is {beat.state}", text, "/workers", Runbook.NO_WORKER)
        if beat.unrecorded:
            text = f"{beat.unrecorded.targets:,} targets were sent, and Pulsar does not store it."
            yield Concern("bad", f"Worker {beat.id} keeps outcomes", text, "/workers", Runbook.NOT_STORED)


def _of_settings(scene: Scene, settings: Globals) -> Iterator[Concern]:
    for channel in sorted(settings.paused_channels):
        page = limits_at(Pool(channel=channel))
        yield Concern("warn", f"Channel {channel} is paused", "An operator paused it.", page, Runbook.FORGOTTEN_PAUSE)
    for flow, pause in sorted(settings.flow_pauses.items()):
        channel, app = flow_parts(flow)
        runbook = Runbook.FORGOTTEN_PAUSE if pause.kind is PauseKind.HAND else Runbook.PAUSED_FLOW
        text = pause.text_at(scene.now_ms)
        level = "warn" if pause.kind in (PauseKind.HAND, PauseKind.LIMIT) else "bad"
        yield Concern(level, f"App {app} is paused on channel {channel}", text, limits_at(Pool(app, channel)), runbook)
    for app, tasks in scene.tasks_of.items():
        if 0 < settings.limits_of(app).tasks <= tasks:
            text = f"It has {counted(tasks, 'live task')}, so more are refused."
            yield Concern("warn", f"{app} is at its limit", text, limits_at(Pool(app)), Runbook.APP_LIMIT)


def limits_at(pool: Pool) -> str:
    """Return where the console changes a channel, an app, or an app on a channel."""
    names = "&".join(f"{kind}={name}" for kind, name in pool._asdict().items() if name)
    return f"/limits?{names}#change"
