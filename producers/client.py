"""The public Python API: submit push tasks, find them, and change the settings that all tasks share."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Self

from pydantic import JsonValue

from backends.redis.registry.audit import AuditEntry
from backends.redis.registry.task_rows import TASK_MESSAGE, TASK_VIEW
from backends.redis.registry.tasks import TaskSelection
from backends.settings import ConnectionSettings
from dispatcher.access.principal import Caller
from dispatcher.analysis.why import Why
from dispatcher.model.errors import InvalidInput, Unreachable
from dispatcher.model.task import PushTask, Target
from dispatcher.model.view import STATES, TaskView, WorkerBeat
from producers.aio import AsyncProxy, awaited
from producers.connection import Connection
from producers.control.access_control import AccessControl
from producers.control.controls import Cancelled, Controls, Edit
from producers.control.foresight import channel_trouble, explain
from producers.control.service_client import ServiceClient
from producers.control.steering import BulkChanges, BulkResult, Plan, Progress
from producers.control.task_changes import Changes, TaskFilter
from producers.files.duplicates import Duplicates
from producers.handle import AsyncTaskHandle, TaskHandle
from producers.outcomes.dead_letters import AsyncDeadLetterBox, DeadLetterBox
from producers.outcomes.record import TargetFilter, TargetRecord
from producers.owner import this_user
from producers.submit.cutter import SlabSource
from producers.submit.many import CONCURRENCY, Submitted, submit_many
from producers.submit.report import SubmitProgress, SubmitResult, Watchers
from producers.submit.validation import Refusal, Unreadable, Variables

Audience = Iterable[str | Target | tuple[str, Variables] | Unreadable] | SlabSource
"""Targets: any iterable. It is streamed and read once. A target with variables is a Target or an (address, dict)
pair."""

AsyncAudience = Audience | AsyncIterable[str | Target | tuple[str, Variables]]
"""Targets: any iterable or async iterable. It is streamed and read once."""
_Submission = tuple[PushTask, AsyncAudience]


class PushClient(ServiceClient):
    """A client connected to Pulsar and Redis.

    It is safe for threads. After a fork the child must not use a client that its parent has used: calls that need
    Pulsar raise Refused there.

    >>> with PushClient.connect(Settings()) as client:
    ...     task = PushTask(app="shop", tier=Tier.HIGH, channel="fcm", message="Sale!", expected_targets=2)
    ...     handle = client.submit(task, ["token-1", "token-2"])
    ...     print(handle.wait(timeout_s=60).targets)
    """

    def __init__(self, connection: Connection, caller: Caller) -> None:
        super().__init__(connection, caller)
        self._controls = Controls(self._services)
        self._dead_letters = connection.dead_letters(self._send_again, caller)
        self._steering = BulkChanges(self._services, connection.registry.tasks, connection.known_tasks)

    @classmethod
    def connect(cls, settings: ConnectionSettings, caller: Caller | None = None) -> Self:
        """Return a client for these settings.

        settings: any object with `pulsar`, `redis` and `producer`, such as fairlane.settings.Settings. Each server is
        connected to on first use: reading tasks needs Redis only. Raises NotConfigured if no Redis address is set and
        no local stack is running.
        caller: who makes its changes, as records and audit name it; None: `client:USER@HOST`.
        """
        return cls(Connection(settings), caller or Caller.named("client", this_user()))

    @classmethod
    @asynccontextmanager
    async def connect_async(
        cls, settings: ConnectionSettings, *, threads: int = 64
    ) -> AsyncIterator["AsyncPushClient"]:
        """Return the same client for async callers: every method is awaited and runs in a thread.

        threads: the maximum number of threads, and so of concurrent calls of `wait`. Audiences may be async iterables,
        also those of `submit_many`. Callbacks run in the method's thread.
        """
        loop, executor = asyncio.get_running_loop(), ThreadPoolExecutor(threads, thread_name_prefix="fairlane")
        client = await loop.run_in_executor(executor, cls.connect, settings)
        try:
            yield AsyncPushClient(client, executor)
        finally:
            await loop.run_in_executor(executor, client.close)
            executor.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the servers."""
        self._connection.close()

    def check_view(self) -> None:
        """Raise Refused or NotReady if workers of another version keep the view, as submissions and changes do.

        Return normally if Redis cannot be reached.
        """
        self._connection.check_form()

    def submit(
        self,
        task: PushTask,
        targets: Audience,
        *,
        on_progress: Callable[[SubmitProgress], None] | None = None,
        on_refused: Callable[[Refusal], None] | None = None,
        on_warning: Callable[[str], None] | None = None,
        strict: bool = False,
        allow_empty: bool = False,
        duplicates: Duplicates = "keep",
        first: int | None = None,
    ) -> TaskHandle:
        """Submit a task. Return when its whole audience is stored; sending begins long before that.

        Memory use is constant, whatever the number of targets. An invalid target is refused (`on_refused`, and
        `handle.result.refusals`) and does not stop the rest. After a failure, the same call with the same id and
        audience continues from the last checkpoint. Once the submission is complete, the call only verifies the
        audience. on_progress: called about twice a second and at the end. on_warning: called before anything is created
        if no live worker has the task's channel, or the channel ignores a field of the message; without it, the warning
        is logged. strict: raise Refused in that case.
        allow_empty: accept an audience without any accepted target. Otherwise such an audience is refused before
        anything is created. duplicates: "keep" submits a target as often as it occurs. "count" also counts the repeated
        targets among the first 100,000 (`handle.result.duplicates`). "remove" submits the first occurrence of each and
        takes 110 bytes of memory per target. first: send to this number of targets only, until `handle.resume()`.

        Raises InvalidInput, AudienceMismatch, BeingSubmitted (another process is submitting it now), TaskEnded,
        LimitReached (its app is at its limit for now; nothing was created), Unreachable. Exceptions of `targets` pass
        through.
        """
        from producers.submit.intake import AudienceRules  # slow to import, and only needed for submissions
        from producers.submit.submit import submit

        watchers, rules = Watchers(on_progress, on_refused), AudienceRules(allow_empty, duplicates, first)
        services = self._services()
        channels, message = self._connection.channels, task.complete_message
        channels.check(task.channel, strict=strict, on_warning=on_warning, message=message)
        result = submit(services, task, targets, watchers, rules)
        return self._handle(result.task, result)

    def submit_many(
        self,
        submissions: Iterable[tuple[PushTask, Audience]],
        *,
        concurrency: int = CONCURRENCY,
        strict: bool = False,
        allow_empty: bool = False,
        duplicates: Duplicates = "keep",
    ) -> Iterator[Submitted[TaskHandle]]:
        """Submit many tasks, `concurrency` of them at once, so that the time to create their topics is shared.

        Yield the results in the order given. A task that fails does not stop the others. strict, allow_empty,
        duplicates: as in `submit`.

        >>> for submitted in client.submit_many((task, audience_of(task)) for task in tasks):
        ...     print(submitted.task.app, submitted.error or submitted.handle.id)
        """
        if concurrency < 1:
            raise InvalidInput(f"concurrency: is {concurrency}; it must be 1 or more.")
        submit = partial(self.submit, strict=strict, allow_empty=allow_empty, duplicates=duplicates)
        return submit_many(submissions, submit, concurrency)

    def task(self, id: str) -> TaskHandle:  # noqa: A002  # the public word for it
        """Return a handle of any submitted task.

        Raises NotFound, or NotReady if the view is being rebuilt and does not know the task yet. While Redis is gone,
        the handle is returned for any id, so that the task can be paused or cancelled: its methods raise NotFound.
        """
        with suppress(Unreachable):
            self._connection.known_tasks.task(id)
        return self._handle(id)

    def tasks(
        self,
        state: str | None = None,
        *,
        app: str | None = None,
        tier: str | None = None,
        channel: str | None = None,
        id_prefix: str | None = None,
        limit: int | None = None,
    ) -> list[TaskView]:
        """Return the tasks in their current state, newest first, including those that ended in the last days.

        state: one of STATES. id_prefix: the beginning of the task ids. limit: without one, all tasks are returned.
        """
        return self.task_page(state, app=app, tier=tier, channel=channel, id_prefix=id_prefix, limit=limit)[0]

    def task_page(
        self,
        state: str | None = None,
        *,
        app: str | None = None,
        tier: str | None = None,
        channel: str | None = None,
        id_prefix: str | None = None,
        limit: int | None = 100,
        cursor: str | None = None,
    ) -> tuple[list[TaskView], str | None]:
        """Return one page of `tasks` and the cursor of the next page.

        The page has at most `limit` tasks (None: any number) and starts at `cursor` (None: at the newest). The returned
        cursor is None after the last page.
        """
        if state is not None and state not in STATES:
            raise InvalidInput(f"state: is {state!r}; it must be one of {', '.join(STATES)}.")
        if limit is not None and limit < 1:
            raise InvalidInput(f"limit: is {limit}; it must be 1 or more.")
        selection = TaskSelection(state=state, app=app, tier=tier, channel=channel, id_prefix=id_prefix)
        page = self._connection.registry.tasks.page(selection, TASK_VIEW, limit, cursor)
        return self._connection.foresight.with_etas(page.tasks), page.cursor

    def message(self, id: str) -> dict[str, JsonValue]:  # noqa: A002
        """Return a task's present message, as submitted or edited; empty once it has ended. Raises as `task`."""
        self._connection.known_tasks.task(id)
        return next(iter(self._connection.registry.tasks.named([id], TASK_MESSAGE)), {})

    def why(self, id: str) -> Why:  # noqa: A002
        """Return where the task's time went: causes in ms that add up to its age. Raises as `task`."""
        connection = self._connection
        return explain(connection.known_tasks.with_times([id]), connection.registry, connection.workers)[0]

    def channel_trouble(self, channel: str, app: str = "") -> str:
        """Return why nothing is sent on a channel: it is paused, no worker has it, or no worker is running.

        app: consider the pause of this app on the channel, too. Return an empty text if the channel sends or may send.
        """
        return channel_trouble(channel, app, self._connection.registry, self._connection.workers)

    def edit_message(self, id: str, message: Mapping[str, JsonValue] | str) -> Edit:  # noqa: A002
        """Replace the message for all targets of a task that are not sent yet, as `TaskHandle.edit_message` does.

        Return the number of the edit and that of the edit now in force.
        """
        return self._controls.edit(id, message)

    def plan_many(self, tasks: TaskFilter, changes: Changes) -> Plan:
        """Return what `set_many` would change now: the tasks in their current state and the fields that would
        change."""
        return self._steering.plan(tasks, changes)

    def set_many(
        self, tasks: TaskFilter | Plan, changes: Changes | None = None, *, on_progress: Progress | None = None
    ) -> BulkResult:
        """Change all live tasks that a filter selects, in batches, or carry out a plan that was shown to a user before.

        >>> client.set_many(TaskFilter(app="shop", tier=Tier.LOW), Changes(weight=0.5))

        The result names the tasks that could not be changed; the same call again changes the rest. on_progress: called
        with the number of tasks changed and the total. Raises InvalidInput; NotFound for an unknown id; Unreachable
        before anything is changed.
        """
        plan = tasks if isinstance(tasks, Plan) else self._steering.plan(tasks, changes or Changes())
        return self._steering.carry_out(plan, on_progress)

    def follow_cancelled(
        self, ids: Sequence[str], wait_s: float = 0.0, *, on_progress: Callable[[int], None] | None = None
    ) -> Cancelled:
        """Return what is in flight of cancelled tasks and its outcome, waiting up to `wait_s` seconds.

        on_progress: called with the number of targets still in flight.
        """
        return self._controls.follow(ids, wait_s, on_progress)

    @property
    def access(self) -> AccessControl:
        """The keys of the HTTP API, and the policies of apps.

        >>> print(client.access.create("shop", ["submit", "read"]).token)
        """
        connection = self._connection
        return AccessControl(self._services, connection.access, connection.epochs.ready, connection.now_ms)

    def audit(
        self, limit: int, app: str | None = None, *, before: tuple[int, int] | None = None
    ) -> Iterator[AuditEntry]:
        """Yield the newest changes made by people and keys, the latest first. app: only those of this app.

        before: a time (wall ms), and how many changes of that time to leave out; of later ones all are left out.
        """
        return self._connection.audit.entries(limit, app, before)

    @property
    def dead_letters(self) -> DeadLetterBox:
        """The targets that were given up: list them, send them again, drop them.

        >>> client.dead_letters.replay(TargetFilter(task="sale", error="HTTP 503"))
        """
        return self._dead_letters

    def invalid_targets(
        self, chosen: TargetFilter = TargetFilter(), *, repeats: bool = False
    ) -> Iterator[TargetRecord]:
        """Yield the targets that providers called invalid in the last 14 days, each of an app and a channel once.

        It comes with its latest time of death. They are yielded when all are read; repeats: yield them as they are
        read, as often as they were reported. Raises Unreachable, NotFound.
        """
        return self._connection.invalid_targets(chosen, repeats=repeats)

    def _send_again(self, task: PushTask, targets: Iterable[Target]) -> int:
        """Submit dead letters, and return the number of refused ones."""
        result = self.submit(task, targets, allow_empty=True).result
        return 0 if result is None else result.refused

    def live_tasks(self) -> list[TaskView]:
        """Return all tasks that have not ended, newest first."""
        return self._connection.foresight.live()

    def check_counts(self) -> None:
        """Raise NotReady while the view is being rebuilt: sums over its tasks are too low then."""
        self._connection.epochs.check_counts()

    def workers(self) -> list[WorkerBeat]:
        """Return the live workers, what each is doing, and how fast."""
        return self._connection.workers.workers()

    def _handle(self, task: str, result: SubmitResult | None = None) -> TaskHandle:
        return TaskHandle(task, self._connection, self._controls, result)


class AsyncPushClient(AsyncProxy[PushClient]):
    """PushClient for async callers: every method is awaited and runs in a thread. Created by
    PushClient.connect_async."""

    faces = {TaskHandle: AsyncTaskHandle}  # noqa: RUF012  # never changed

    @property
    def dead_letters(self) -> AsyncDeadLetterBox:
        """The targets that were given up: list them, send them again, drop them."""
        return AsyncDeadLetterBox(self._target.dead_letters, self._executor)

    async def submit(
        self,
        task: PushTask,
        targets: AsyncAudience,
        *,
        on_progress: Callable[[SubmitProgress], None] | None = None,
        on_refused: Callable[[Refusal], None] | None = None,
        on_warning: Callable[[str], None] | None = None,
        strict: bool = False,
        allow_empty: bool = False,
        duplicates: Duplicates = "keep",
        first: int | None = None,
    ) -> AsyncTaskHandle:
        """Submit a task as PushClient.submit does; the audience may be async. The callbacks run in another thread."""
        handle: AsyncTaskHandle = await self._call(
            self._target.submit,
            task,
            targets,
            on_progress=on_progress,
            on_refused=on_refused,
            on_warning=on_warning,
            strict=strict,
            allow_empty=allow_empty,
            duplicates=duplicates,
            first=first,
        )
        return handle

    async def submit_many(
        self,
        submissions: Iterable[_Submission] | AsyncIterable[_Submission],
        *,
        concurrency: int = CONCURRENCY,
        strict: bool = False,
        allow_empty: bool = False,
        duplicates: Duplicates = "keep",
    ) -> AsyncIterator[Submitted[AsyncTaskHandle]]:
        """Submit many tasks as PushClient.submit_many does; submissions and audiences may be async.

        >>> async for submitted in await client.submit_many(submissions):
        ...     print(submitted.task.app, submitted.error or submitted.handle.id)
        """
        submitted: AsyncIterator[Submitted[AsyncTaskHandle]] = await self._call(
            self._target.submit_many,
            submissions,
            concurrency=concurrency,
            strict=strict,
            allow_empty=allow_empty,
            duplicates=duplicates,
        )
        return submitted

    async def task(self, id: str) -> AsyncTaskHandle:  # noqa: A002  # as PushClient.task
        """Return a handle of any submitted task, whichever process submitted it. Raises NotFound, NotReady."""
        handle: AsyncTaskHandle = await self._call(self._target.task, id)
        return handle

    audit = awaited(PushClient.audit)
    cap_app = awaited(PushClient.cap_app)
    cap_channel = awaited(PushClient.cap_channel)
    change_service = awaited(PushClient.change_service)
    channel_trouble = awaited(PushClient.channel_trouble)
    check_counts = awaited(PushClient.check_counts)
    check_view = awaited(PushClient.check_view)
    close = awaited(PushClient.close)
    edit_message = awaited(PushClient.edit_message)
    follow_cancelled = awaited(PushClient.follow_cancelled)
    globals = awaited(PushClient.globals)
    cap_states = awaited(PushClient.cap_states)
    invalid_targets = awaited(PushClient.invalid_targets)
    limit_app = awaited(PushClient.limit_app)
    live_tasks = awaited(PushClient.live_tasks)
    message = awaited(PushClient.message)
    pause_channel = awaited(PushClient.pause_channel)
    plan_many = awaited(PushClient.plan_many)
    resume_channel = awaited(PushClient.resume_channel)
    set_capacity = awaited(PushClient.set_capacity)
    set_many = awaited(PushClient.set_many)
    set_sharing = awaited(PushClient.set_sharing)
    set_tiers = awaited(PushClient.set_tiers)
    task_page = awaited(PushClient.task_page)
    tasks = awaited(PushClient.tasks)
    weigh_app = awaited(PushClient.weigh_app)
    why = awaited(PushClient.why)
    workers = awaited(PushClient.workers)
