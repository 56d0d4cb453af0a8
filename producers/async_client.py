"""The client for async callers: the methods of PushClient and TaskHandle, awaited."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable

from dispatcher.model.task import PushTask, Target
from producers.aio import AsyncProxy, awaited
from producers.client import Audience, PushClient
from producers.files.duplicates import Duplicates
from producers.handle import TaskHandle
from producers.outcomes.dead_letters import DeadLetterBox
from producers.submit.many import CONCURRENCY, Submitted
from producers.submit.report import SubmitProgress, SubmitResult
from producers.submit.validation import Refusal, Variables

AsyncAudience = Audience | AsyncIterable[str | Target | tuple[str, Variables]]
"""Targets: any iterable or async iterable. It is streamed and read once."""
_Submission = tuple[PushTask, AsyncAudience]


class AsyncTaskHandle(AsyncProxy[TaskHandle]):
    """A handle of a task, like TaskHandle; every method is awaited."""

    @property
    def id(self) -> str:
        """The task's id."""
        return self._target.id

    @property
    def result(self) -> SubmitResult | None:
        """The result of the `submit` that returned this handle; None for a handle obtained in another way."""
        return self._target.result

    cancel = awaited(TaskHandle.cancel)
    close = awaited(TaskHandle.close)
    edit_message = awaited(TaskHandle.edit_message)
    failures = awaited(TaskHandle.failures)
    failures_by_reason = awaited(TaskHandle.failures_by_reason)
    outcomes = awaited(TaskHandle.outcomes)
    pause = awaited(TaskHandle.pause)
    progress = awaited(TaskHandle.progress)
    resume = awaited(TaskHandle.resume)
    set_cap = awaited(TaskHandle.set_cap)
    set_tier = awaited(TaskHandle.set_tier)
    set_weight = awaited(TaskHandle.set_weight)
    stop = awaited(TaskHandle.stop)
    wait = awaited(TaskHandle.wait)


class AsyncDeadLetterBox(AsyncProxy[DeadLetterBox]):
    """Dead letters, like DeadLetterBox; every method is awaited."""

    drop = awaited(DeadLetterBox.drop)
    groups = awaited(DeadLetterBox.groups)
    replay = awaited(DeadLetterBox.replay)
    targets = awaited(DeadLetterBox.targets)


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
