"""Async callers are served by the sync objects: nothing is written twice."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from producers.aio import AsyncProxy, awaited
from producers.submit.many import Submitted, submit_many
from tests.unit.dispatch.producers.fake_service import breaking

PUSH = PushTask(app="shop", tier=Tier.LOW, channel="null", message="Sale!")


class Part:
    def __init__(self, number: int) -> None:
        self.number = number

    def doubled(self) -> int:
        return 2 * self.number


class Whole:
    def __init__(self) -> None:
        self.taken: list[int] = []
        self.begun = threading.Event()
        self.ended = threading.Event()

    def part(self, number: int) -> Part:
        return Part(number)

    def collect(self, numbers: Iterable[int]) -> int:
        try:
            for number in numbers:
                self.taken.append(number)
                self.begun.set()
            return len(self.taken)
        finally:
            self.ended.set()

    def count(self, to: int) -> Iterator[int]:
        yield from range(to)

    def doubled(self, numbers: Iterable[int]) -> Iterator[Submitted[Part]]:
        try:
            for number in numbers:
                yield Submitted(PUSH, Part(number))
        finally:
            self.ended.set()

    def sums(self, submissions: Iterable[tuple[PushTask, Iterable[int]]]) -> Iterator[Submitted[Part]]:
        """In threads of its own, as `submit_many`."""
        for submitted in submit_many(submissions, lambda _task, audience: Part(sum(audience)), 3):
            assert submitted.error is None
            yield submitted

    def fail(self) -> None:
        raise ValueError("no")

    def thread(self) -> int:
        return threading.get_ident()


class AsyncPart(AsyncProxy[Part]):
    @property
    def number(self) -> int:
        return self._target.number

    doubled = awaited(Part.doubled)


class AsyncWhole(AsyncProxy[Whole]):
    """Has the methods that a test adds to its target, too."""

    faces = {Part: AsyncPart}  # noqa: RUF012

    collect = awaited(Whole.collect)
    count = awaited(Whole.count)
    doubled = awaited(Whole.doubled)
    fail = awaited(Whole.fail)
    part = awaited(Whole.part)
    sums = awaited(Whole.sums)
    thread = awaited(Whole.thread)

    def __getattr__(self, name: str) -> object:
        return partial(self._call, getattr(self._target, name))


@pytest.fixture
def whole() -> Whole:
    return Whole()


@pytest.fixture
def proxy(whole: Whole) -> Iterator[AsyncWhole]:
    with ThreadPoolExecutor(4) as executor:
        yield AsyncWhole(whole, executor)


async def numbers(to: int) -> AsyncIterator[int]:
    for number in range(to):
        if number % 1_000 == 0:
            await asyncio.sleep(0)
        yield number


async def test_methods_are_awaited_in_threads(proxy: Any) -> None:
    assert await proxy.thread() != threading.get_ident()
    with pytest.raises(ValueError, match="no"):
        await proxy.fail()
    with pytest.raises(AttributeError):
        await proxy.nothing()


async def test_what_comes_back_is_wrapped_in_turn(proxy: Any) -> None:
    part = await proxy.part(4)
    assert part.number == 4
    assert await part.doubled() == 8
    assert [number async for number in await proxy.count(1_000)] == list(range(1_000))


async def test_what_a_generator_takes_is_streamed_while_it_is_iterated(proxy: Any) -> None:
    """As the submissions of `submit_many`, whose handles are awaited too."""
    for source in (iter(range(1_000)), numbers(1_000)):
        doubled = [await one.handle.doubled() async for one in await proxy.doubled(source)]
        assert doubled == list(range(0, 2_000, 2))


def with_async_audiences(count: int) -> Iterator[tuple[PushTask, AsyncIterator[int]]]:
    for number in range(count):
        yield PUSH, numbers(1_500 + number)


async def from_a_source(count: int) -> AsyncIterator[tuple[PushTask, AsyncIterator[int]]]:
    for submission in with_async_audiences(count):
        yield submission


@pytest.mark.parametrize("made", [with_async_audiences, from_a_source, lambda count: list(with_async_audiences(count))])
async def test_audiences_in_submissions_may_be_async(proxy: Any, made: Callable[[int], object]) -> None:
    """However the submissions themselves come; `submit_many` takes them in threads of its own."""
    sums = [one.handle.number async for one in await proxy.sums(made(20))]
    assert sums == [sum(range(1_500 + number)) for number in range(20)]


async def test_a_list_of_targets_is_passed_on_as_it_is(whole: Whole, proxy: Any) -> None:
    """Its length tells how many are expected."""
    given = [("token-1", {"name": "Ann"}), ("token-2", {})]

    whole.same = lambda items: items is given  # type: ignore[attr-defined]
    assert await proxy.same(given)


async def test_what_a_generator_gave_before_it_failed_is_not_lost(proxy: Any) -> None:
    taken: list[int] = []

    async def use() -> None:
        async for one in await proxy.doubled(breaking(range(100), KeyError("source"))):
            taken.append(one.handle.number)  # noqa: PERF401  # what came before the error is looked at

    with pytest.raises(KeyError, match="source"):
        await use()
    assert taken == list(range(100))


async def test_a_generator_that_is_left_ends_and_takes_no_more(proxy: Any, whole: Whole) -> None:
    async for one in await proxy.doubled(iter(range(100_000))):
        assert one.handle.number == 0
        break
    assert await asyncio.to_thread(whole.ended.wait, 5)


async def test_a_generator_may_be_left_when_its_client_is_closed(whole: Whole) -> None:
    executor = ThreadPoolExecutor(4)
    found: Any = await AsyncWhole(whole, executor).count(1_000)
    assert await anext(found) == 0
    executor.shutdown()
    await found.aclose()


@pytest.mark.parametrize("count", [0, 1, 50_000])
async def test_async_and_sync_iterables_are_streamed(proxy: Any, whole: Whole, count: int) -> None:
    assert await proxy.collect(numbers(count)) == count
    assert await proxy.collect(numbers=iter(range(count))) == 2 * count
    assert whole.taken == [*range(count), *range(count)]


async def test_an_async_source_is_not_read_far_ahead(whole: Whole, proxy: Any) -> None:
    gate, read = threading.Event(), 0

    async def source() -> AsyncIterator[int]:
        nonlocal read
        for read in range(100_000):
            yield read

    def slowly(items: Iterable[int]) -> int:
        taken = iter(items)
        next(taken)
        gate.wait(5)
        return sum(1 for _ in taken)

    whole.slowly = slowly  # type: ignore[attr-defined]
    call = asyncio.create_task(proxy.slowly(source()))
    for _ in range(1_000):
        await asyncio.sleep(0)
    ahead = read
    gate.set()
    assert await call == 99_999
    assert ahead < 20_000


async def test_an_error_of_an_async_source_reaches_the_caller(proxy: Any) -> None:
    async def broken() -> AsyncIterator[int]:
        yield 1
        raise KeyError("source")

    with pytest.raises(KeyError, match="source"):
        await proxy.collect(broken())


async def test_a_cancelled_call_stops_taking_targets(proxy: Any, whole: Whole) -> None:
    async def stuck() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    call = asyncio.create_task(proxy.collect(stuck()))
    assert await asyncio.to_thread(whole.begun.wait, 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(whole.ended.wait, 5)
