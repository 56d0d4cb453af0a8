"""Checks of the view in Redis for `fairlane doctor`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

from backends.redis.epochs import Epochs
from backends.redis.keys import MAX_SKIPPED_RECORDS
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import IDLE_TASK, IdleTask
from backends.redis.skipped_records import SkippedRecord, SkippedRecords
from backends.redis.view import SET_APART, WITHOUT_TASK, open_view
from backends.redis.workers import Workers
from dispatcher.analysis.finding import Finding
from dispatcher.analysis.served import Served, waiting_tasks
from dispatcher.model.errors import FairlaneError, Refused
from dispatcher.model.flow_pause import PauseKind, flow_name, flow_parts
from dispatcher.model.service_settings import globals_of
from dispatcher.model.values import counted, duration, listed
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from dispatcher.model.view_form import GONE, ViewRole, judge
from fairlane.screen.fields import local_moment
from fairlane.settings import Settings
from producers.connection import Connection

_SHOWN_LANES = 10
_SHOWN_TASKS = 5
_SHOWN_LETTER_LANES = 5
NO_SETTINGS = globals_of({})


def view_findings(settings: Settings) -> Iterator[Finding]:
    """Yield the findings on the view.

    None if Redis does not answer: other findings report that. If the view belongs to another installation, that is the
    only finding.
    """
    elsewhere = list(home_findings(settings))
    yield from elsewhere
    if elsewhere:
        return
    try:
        with closing(open_view(settings.redis)) as view:
            beats, epochs = Workers(view).workers(), Epochs(view)
            yield from form_findings(epochs.form(), beats)
            yield from newer_findings(beats)
            yield from unrecorded_findings(beats)
            registry = Registry(view)
            idle = registry.tasks.live(IDLE_TASK)
            yield from channel_findings(beats, [each.task for each in idle])
            settings_now = registry.service.globals()
            yield from stuck_findings(beats, idle, settings_now)
            yield from silent_findings(idle, settings_now)
            yield from lacking_findings(idle)
            yield from flow_findings(settings_now, [each.task for each in idle])
            yield from skipped_findings(SkippedRecords(view).by_topic(settings.pulsar.outcome_partitions))
            counters = view.stats()
            yield letter_finding(counters)
            yield from apart_findings(counters)
    except FairlaneError:
        return


def home_findings(settings: Settings) -> Iterator[Finding]:
    """Yield a failure if another Redis holds the view of this installation."""
    try:
        with closing(Connection(settings)) as connection:
            connection.check_home()
    except Refused as error:
        yield Finding("fail", error.cause, error.next_step)
    except FairlaneError:  # Pulsar's; other findings report it
        return


def newer_findings(beats: Iterable[WorkerBeat]) -> Iterator[Finding]:
    """Yield a finding if workers leave lanes to workers of a newer version."""
    serving = [beat for beat in beats if beat.is_live and beat.newer]
    lanes = sorted({lane for beat in serving for lane in beat.newer})
    if not lanes:
        return
    shown = listed(lanes, _SHOWN_LANES)
    workers = ", ".join(f"{beat.id} ({beat.version})" for beat in serving)
    yield Finding(
        "warn",
        f"{len(lanes)} lanes hold envelopes of a later version ({shown}); these workers leave them there: {workers}",
        "Upgrade these workers. Until then only newer ones send these envelopes.",
    )


def unrecorded_findings(beats: Iterable[WorkerBeat]) -> Iterator[Finding]:
    """Yield a warning for each worker whose outcomes Pulsar does not store: it is cut off, or a topic is missing."""
    for beat in beats:
        late = beat.unrecorded
        if late is None or beat.state in GONE:
            continue
        shown = listed(late.tasks, _SHOWN_TASKS)
        yield Finding(
            "warn",
            f"worker {beat.id} holds outcomes of {late.targets:,} targets that Pulsar has not stored, the oldest for "
            f"{duration(max(0, beat.seen_ms - late.since_ms) / 1000)} (tasks {shown}); its claims are kept until it "
            "has recorded them or ends",
            f"See whether {beat.host} reaches Pulsar, and its log. If Pulsar is well and this stays, stop the worker: "
            "its claims end, and what it sent and did not record is sent again.",
        )


def channel_findings(beats: Iterable[WorkerBeat], tasks: Iterable[TaskView]) -> Iterator[Finding]:
    """Yield a warning for each channel of live tasks that no live worker has; one warning in all if no worker runs."""
    beats = list(beats)
    served = Served.by(beats)
    if all(beat.state in GONE for beat in beats):
        counts = [task.targets.pending for task in tasks if task.targets.pending and not task.ended]
        if counts:
            number = "1 task" if len(counts) == 1 else f"{len(counts):,} tasks"
            what = f"no worker is running: {number} with {sum(counts):,} targets wait for one"
            yield Finding("warn", what, "Run `fairlane worker`.")
        return
    for waiting in waiting_tasks(served, tasks):
        fix = f"Start a worker with channel {waiting.channel}, or cancel these tasks. Live workers have: "
        yield Finding("warn", str(waiting), f"{fix}{served.channel_list()}.")


def stuck_findings(
    beats: Iterable[WorkerBeat], tasks: Iterable[IdleTask], settings: Globals = NO_SETTINGS
) -> Iterator[Finding]:
    """Yield a warning if tasks with open targets make no progress and nothing explains why."""
    served = Served.by(beats)
    stuck = [idle for idle in tasks if idle.is_stuck(served, settings)]
    if not stuck:
        return
    shown = listed([each.task.id for each in stuck], _SHOWN_TASKS)
    pending = sum(each.task.targets.pending for each in stuck)
    number = "1 task cannot end by itself" if len(stuck) == 1 else f"{len(stuck):,} tasks cannot end by themselves"
    yield Finding(
        "warn",
        f"{number}: {pending:,} targets have no outcome, and nothing has happened "
        f"for {duration(min(each.idle_ms for each in stuck) / 1000)} or longer ({shown})",
        'See "A task cannot end" in docs/how-to/tasks.md for the cause. `fairlane task close ID --reason TEXT` ends a '
        "task as failed.",
    )


def silent_findings(tasks: Iterable[IdleTask], settings: Globals = NO_SETTINGS) -> Iterator[Finding]:
    """Yield a warning if tasks are sent and nothing of them gets an outcome."""
    silent = [idle for idle in tasks if idle.is_silent(settings)]
    if silent:
        shown = listed([each.task.id for each in silent], _SHOWN_TASKS)
        lasts = duration(min(each.silent_ms for each in silent) / 1000)
        yield Finding(
            "warn",
            f"workers send {counted(len(silent), 'task')}, and no target has had an outcome for {lasts} or longer "
            f"({shown})",
            'See "Silent task" in docs/runbooks.md. `fairlane task why ID` says what each waits for.',
        )


def lacking_findings(tasks: Iterable[IdleTask]) -> Iterator[Finding]:
    """Yield a warning for each task with an envelope that lacks a target without an outcome."""
    for idle in tasks:
        if idle.lacking:
            writer, sequence, attempt = idle.lacking.rsplit(":", 2)
            yield Finding(
                "warn",
                f"envelope {sequence} of writer {writer} of task {idle.task.id}, round {attempt}, lacks a target that "
                "has no outcome; it is neither sent nor acknowledged",
                "See `fairlane registry status`: if an outcome topic is not read to its end, this ends with it. If it "
                f"stays, `fairlane task close {idle.task.id} --reason TEXT` ends the task, and please report a defect.",
            )


def flow_findings(settings: Globals, tasks: Iterable[TaskView]) -> Iterator[Finding]:
    """Yield a warning for each app that is paused on a channel by something else than an operator."""
    waiting: dict[str, int] = {}
    for task in tasks:
        if not task.ended:
            flow = flow_name(task.channel, task.app)
            waiting[flow] = waiting.get(flow, 0) + task.targets.pending
    for flow, pause in sorted(settings.flow_pauses.items()):
        if pause.kind is PauseKind.HAND:
            continue
        channel, app = flow_parts(flow)
        confirm = " Add --confirm-dead if its targets are dead indeed." if pause.kind is PauseKind.SUSPECT else ""
        until = f"until {local_moment(pause.until_ms)}" if pause.until_ms else "without an end"
        yield Finding(
            "warn",
            f"app {app} is paused on channel {channel} {until}, and {waiting.get(flow, 0):,} targets wait: {pause}",
            f"Remove the cause. `fairlane channel resume {channel} --app {app}` ends the pause now.{confirm}",
        )


def form_findings(form: int | None, beats: Sequence[WorkerBeat]) -> Iterator[Finding]:
    """Yield a warning if workers of this version may not serve the view."""
    judged = judge(form, beats)
    if judged.role is ViewRole.SERVE:
        return
    waiting = sum(beat.state == "standby" for beat in beats)
    what = f"{waiting} workers are on standby: " if waiting else "workers of this version would be on standby: "
    yield Finding("warn", f"{what}{judged.why}", "See docs/how-to/upgrading.md.")


def skipped_findings(skipped: Mapping[str, Sequence[SkippedRecord]]) -> Iterator[Finding]:
    """Yield a finding for each topic in which records were skipped."""
    for topic, kept in skipped.items():
        name = topic if topic == "control" else f"outcomes-{topic}"
        more = " (the oldest of them)" if len(kept) >= MAX_SKIPPED_RECORDS else ""
        yield Finding(
            "warn",
            f"{len(kept)} records of {name} could not be read and were skipped{more}; "
            f"the first, at {kept[0].position}: {kept[0].reason}",
            "A newer version that can read them will apply them. If no newer version wrote them, another program "
            "writes to the topic: check who is allowed to.",
        )


def apart_findings(counters: Mapping[str, int]) -> Iterator[Finding]:
    """Report the tasks with envelopes that were set apart. Reads the counters of the view."""
    counts = {name.removeprefix(SET_APART): count for name, count in counters.items() if name.startswith(SET_APART)}
    if not counts:
        return
    tasks = sorted(counts, key=lambda task: -counts[task])
    yield Finding(
        "warn",
        f"{sum(counts.values()):,} targets failed because their envelopes could not be read or settled, in tasks "
        f"{listed([f'{task} ({counts[task]:,})' for task in tasks], _SHOWN_TASKS)}",
        "Another program wrote them: only Fairlane may write to its topics. "
        "`fairlane dead-letters show --task ID` lists targets and reasons; `fairlane dead-letters drop --task ID` ends "
        "this warning.",
    )


def letter_finding(counters: Mapping[str, int]) -> Finding:
    """Report dead letters. Reads the counters of the view, not the topic, which keeps letters for 14 days."""
    counts = {
        name.removeprefix(WITHOUT_TASK): count for name, count in counters.items() if name.startswith(WITHOUT_TASK)
    }
    if not counts:
        return Finding("ok", "no dead letters without a task since the view in Redis was made")
    lanes = sorted(counts, key=lambda lane: -counts[lane])
    named = listed([f"{lane} ({counts[lane]:,})" for lane in lanes], _SHOWN_LETTER_LANES)
    what = f"{sum(counts.values()):,} dead letters without a task: messages that were not envelopes, in {named}"
    show, drop = (f"fairlane dead-letters {command} --without-task" for command in ("show", "drop"))
    fix = "Find out who else writes to these topics; only Fairlane may."
    return Finding("warn", what, f"{fix} `{show}` lists the messages; `{drop}` ends this warning.")
