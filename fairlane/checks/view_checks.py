"""Checks of the view in Redis for `fairlane doctor`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing

from backends.pulsar.provision import Finding
from backends.redis.epochs import Epochs
from backends.redis.keys import MAX_PASSED_OVER
from backends.redis.passed_over import Passed, PassedOver
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import IDLE_TASK, IdleTask
from backends.redis.view import open_view
from backends.redis.workers import Workers
from dispatcher.analysis.served import Served, waiting_tasks
from dispatcher.model.errors import FairlaneError, Refused
from dispatcher.model.values import duration
from dispatcher.model.view import ENDED_STATES, TaskView, WorkerBeat
from dispatcher.model.view_form import ViewRole, judge
from fairlane.settings import Settings
from producers.connection import Connection

_SHOWN_LANES = 10
_SHOWN_TASKS = 5
STUCK_MS = 900_000
"""A task without progress for longer than this is stuck. A task waits at most 600 s for its next attempt."""


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
        view = open_view(settings.redis)
        try:
            beats, epochs = Workers(view).workers(), Epochs(view)
            yield from form_findings(epochs.form(), beats)
            yield from newer_findings(beats)
            yield from unrecorded_findings(beats)
            registry = Registry(view)
            idle = registry.tasks.live(IDLE_TASK)
            yield from channel_findings(beats, [one.task for one in idle])
            yield from stuck_findings(beats, idle, registry.service.globals().paused_channels)
            yield from passed_over_findings(PassedOver(view).by_topic(settings.pulsar.outcome_partitions))
        finally:
            view.close()
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
    serving = [beat for beat in beats if beat.is_live and beat.extra.get("newer")]
    lanes = sorted({lane for beat in serving for lane in beat.extra["newer"]})
    if not lanes:
        return
    shown = ", ".join(lanes[:_SHOWN_LANES]) + (", …" if len(lanes) > _SHOWN_LANES else "")
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
        if late is None or beat.state in ("stopped", "lost"):
            continue
        shown = ", ".join(late.tasks[:_SHOWN_TASKS]) + (", …" if len(late.tasks) > _SHOWN_TASKS else "")
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
    if all(beat.state in ("stopped", "lost") for beat in beats):
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
    beats: Iterable[WorkerBeat], tasks: Iterable[IdleTask], paused_channels: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield a warning if tasks with open targets make no progress and nothing explains why."""
    served = Served.by(beats)
    stuck = [one for one in tasks if _is_stuck(one, served, paused_channels)]
    if not stuck:
        return
    shown = ", ".join(one.task.id for one in stuck[:_SHOWN_TASKS]) + (", …" if len(stuck) > _SHOWN_TASKS else "")
    pending = sum(one.task.targets.pending for one in stuck)
    number = "1 task cannot end by itself" if len(stuck) == 1 else f"{len(stuck):,} tasks cannot end by themselves"
    yield Finding(
        "warn",
        f"{number}: {pending:,} targets have no outcome, and nothing has happened "
        f"for {duration(min(one.idle_ms for one in stuck) / 1000)} or longer ({shown})",
        'See "A task cannot end" in docs/how-to/tasks.md for the cause. `fairlane task close ID --reason TEXT` ends a '
        "task as failed.",
    )


def _is_stuck(one: IdleTask, served: Served, paused_channels: Collection[str]) -> bool:
    task = one.task
    if not served.workers or one.idle_ms < STUCK_MS or task.targets.pending <= 0:
        return False
    may_be_sent = task.channel not in paused_channels and not served.lacks(task.channel)
    return task.state in ENDED_STATES or (task.state == "running" and task.sealed and may_be_sent)


def form_findings(form: int | None, beats: Sequence[WorkerBeat]) -> Iterator[Finding]:
    """Yield a warning if workers of this version may not serve the view."""
    judged = judge(form, beats)
    if judged.role is ViewRole.SERVE:
        return
    waiting = sum(beat.state == "standby" for beat in beats)
    what = f"{waiting} workers are on standby: " if waiting else "workers of this version would be on standby: "
    yield Finding("warn", f"{what}{judged.why}", "See docs/how-to/upgrading.md.")


def passed_over_findings(passed: Mapping[str, Sequence[Passed]]) -> Iterator[Finding]:
    """Yield a finding for each topic in which records were passed over."""
    for topic, kept in passed.items():
        name = topic if topic == "control" else f"outcomes-{topic}"
        more = " (the oldest of them)" if len(kept) >= MAX_PASSED_OVER else ""
        yield Finding(
            "warn",
            f"{len(kept)} records of {name} could not be read and were skipped{more}; "
            f"the first, at {kept[0].position}: {kept[0].reason}",
            "A newer version that can read them will apply them. If no newer version wrote them, another program "
            "writes to the topic: check who is allowed to.",
        )
