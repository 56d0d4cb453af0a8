"""Async faces of sync classes: their methods run in threads, so there is only one implementation."""

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from itertools import islice
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, overload

from dispatcher.model.task import PushTask
from producers.owner import OwnerProcess
from producers.submit.many import Submitted

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

_BUFFERED = 4_096
"""The maximum number of items read from an async audience ahead of the submission."""
_LOOK_S = 0.1
_PAGE = 256
"""The maximum number of items a thread takes from an iterator at once. It starts at one and doubles each time."""


class AsyncProxy(Generic[T]):
    """Base of the async faces of sync classes. A face represents `target` and runs its calls in the executor.

    A face lists the methods it has, each as `awaited(Class.method)`, which copies the parameters and the docstring.
    Returned objects of the classes in `faces` get faces of their own, and iterators become async iterators. Async
    iterables are bridged to threads, both as arguments and next to a task in submissions. A cancelled call stops at the
    next target it takes. A call that takes no targets runs to its end and its result is dropped.
    """

    faces: ClassVar[Mapping[type, "type[AsyncProxy[Any]]"]] = {}

    def __init__(self, target: T, executor: Executor) -> None:
        self._target = target
        self._executor = executor
        self._owner = OwnerProcess()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._target!r})"

    async def _call(self, method: Callable[..., object], *args: object, **kwargs: object) -> Any:
        self._owner.check()
        loop, given_up = asyncio.get_running_loop(), threading.Event()
        bridged = _Bridges(loop, given_up).argument
        call = partial(method, *map(bridged, args), **{name: bridged(value) for name, value in kwargs.items()})
        result: object = None
        try:
            result = await loop.run_in_executor(self._executor, call)
        finally:
            if not isinstance(result, Iterator):
                given_up.set()
        return self._each(result, given_up) if isinstance(result, Iterator) else self._back(result)

    def _back(self, value: object) -> object:
        face = self.faces.get(type(value))
        if face is not None:
            return face(value, self._executor)
        return replace(value, handle=self._back(value.handle)) if isinstance(value, Submitted) else value

    async def _each(self, items: Iterator[object], given_up: threading.Event) -> AsyncIterator[object]:
        """Iterate over a result page by page. A generator reads its arguments during iteration, so both are given up
        together."""
        loop, size = asyncio.get_running_loop(), 1
        try:
            while True:
                page, error = await loop.run_in_executor(self._executor, _page_of, items, size)
                for item in page:
                    yield self._back(item)
                if error is not None:
                    raise error
                if not page:
                    return
                size = min(2 * size, _PAGE)
        finally:
            given_up.set()
            with suppress(RuntimeError):  # the executor is shut down; nothing is running any more
                self._executor.submit(_close, items)


@overload
def awaited(
    method: Callable[Concatenate[T, P], Iterator[R]],
) -> Callable[Concatenate[AsyncProxy[T], P], Coroutine[Any, Any, AsyncIterator[R]]]: ...
@overload
def awaited(
    method: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[AsyncProxy[T], P], Coroutine[Any, Any, R]]: ...
def awaited(method: Callable[Concatenate[T, P], Any]) -> Callable[Concatenate[AsyncProxy[T], P], Any]:
    """Return the method of a face that runs this method of the class behind it."""

    @wraps(method)
    async def call(proxy: AsyncProxy[T], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        return await proxy._call(getattr(proxy._target, method.__name__), *args, **kwargs)

    return call


def _page_of(items: Iterator[object], size: int) -> tuple[list[object], BaseException | None]:
    """Return up to `size` items; fewer at the end, together with the exception raised there, if any."""
    page: list[object] = []
    try:
        for item in islice(items, size):
            page.append(item)  # noqa: PERF402  # items before an error are kept
    except BaseException as error:
        return page, error
    return page, None


def _close(items: Iterator[object]) -> None:
    """Close an iterator, in a thread: a generator may wait for work in progress."""
    close = getattr(items, "close", None)
    if close is not None:
        with suppress(ValueError):  # it runs in another thread; its source has been given up
            close()


class _Bridges:
    """Converts the arguments of an async caller into objects that a thread can read."""

    def __init__(self, loop: asyncio.AbstractEventLoop, given_up: threading.Event) -> None:
        self._loop = loop
        self._given_up = given_up

    def argument(self, value: object) -> object:
        if isinstance(value, AsyncIterable):
            return self._bridge(value)
        if isinstance(value, Iterator):
            return self._stoppable(value)
        if isinstance(value, list | tuple) and any(isinstance(part, PushTask) for part in _parts(value[:1])):
            return [self._item(item) for item in value]
        return value

    def _item(self, item: object) -> object:
        """Return a submission whose async audience is bridged; return any other item unchanged."""
        if isinstance(item, tuple) and any(isinstance(part, AsyncIterable) for part in item):
            return tuple(self.argument(part) for part in item)
        return item

    def _stoppable(self, items: Iterator[object]) -> Iterator[object]:
        """Yield the items; raise CancelledError once the caller no longer waits."""
        for item in items:
            if self._given_up.is_set():
                raise asyncio.CancelledError
            yield self._item(item)

    def _bridge(self, items: AsyncIterable[object]) -> Iterator[object]:
        """Bridge an async iterable to a thread: the loop reads ahead into a bounded buffer, the thread takes items in
        bulk."""
        pump = _Pump(items)
        running = asyncio.run_coroutine_threadsafe(pump.run(), self._loop)
        try:
            while batch := _await(asyncio.run_coroutine_threadsafe(pump.take(), self._loop), self._given_up):
                yield from map(self._item, batch)
            running.result()
        finally:
            running.cancel()


def _parts(first: Sequence[object]) -> Sequence[object]:
    """Return the parts of a sequence's first item, if it has any."""
    return first[0] if first and isinstance(first[0], tuple) else ()


def _await(taken: Future[list[T]], given_up: threading.Event) -> list[T]:
    while not given_up.is_set():
        done, _ = wait([taken], timeout=_LOOK_S)
        if done:
            return taken.result()
    taken.cancel()
    raise asyncio.CancelledError


class _Pump(Generic[T]):
    """Runs in the event loop and fills the buffer while it has room."""

    def __init__(self, items: AsyncIterable[T]) -> None:
        self._items = items
        self._buffer: list[T] = []
        self._changed = asyncio.Condition()
        self._ended = False

    async def run(self) -> None:
        try:
            async for item in self._items:
                await self._put(item)
        finally:
            self._ended = True
            async with self._changed:
                self._changed.notify_all()

    async def take(self) -> list[T]:
        """Return everything in the buffer; wait if it is empty. The list is empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._buffer or self._ended)
            taken, self._buffer = self._buffer, []
            self._changed.notify_all()
            return taken

    async def _put(self, item: T) -> None:
        self._buffer.append(item)
        if len(self._buffer) == 1 or len(self._buffer) >= _BUFFERED:
            async with self._changed:
                self._changed.notify_all()
                await self._changed.wait_for(lambda: len(self._buffer) < _BUFFERED)
