"""Runners send the targets of all calls of a flow: in turn, never more at once than allowed, and to the end."""

import asyncio

import pytest

from consumers.delivery.push.runners import Runners


class Call:
    """Targets whose requests end when the test says so."""

    def __init__(self, name: str, count: int, sent: list[str]) -> None:
        self.left = [f"{name}{number}" for number in range(count)]
        self.sent = sent
        self.under_way: dict[str, asyncio.Future[bool]] = {}
        self.cancelled: list[str] = []
        self.is_broken = False

    def take(self) -> str | None:
        if self.is_broken:
            raise RuntimeError("cannot be rendered")
        return self.left.pop(0) if self.left else None

    async def send(self, target: str) -> bool:
        self.sent.append(target)
        self.under_way[target] = asyncio.get_running_loop().create_future()
        try:
            return await self.under_way[target]
        except asyncio.CancelledError:
            self.cancelled.append(target)
            raise
        finally:
            del self.under_way[target]

    async def answer(self, *, goes_on: bool = True) -> None:
        for future in list(self.under_way.values()):
            future.set_result(goes_on)
        await turns()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_calls_take_turns_and_share_the_runners() -> None:
    sent: list[str] = []
    runners, first, second = Runners(lambda: 2), Call("a", 4, sent), Call("b", 2, sent)
    calls = [asyncio.create_task(runners.send_all(call)) for call in (first, second)]
    await turns()
    assert sent == ["a0", "a1"]
    await first.answer()
    assert sent[2:] == ["a2", "b0"]
    await first.answer()
    await second.answer()
    await first.answer()
    await second.answer()
    await asyncio.gather(*calls)
    assert sorted(sent) == ["a0", "a1", "a2", "a3", "b0", "b1"]


async def test_a_limit_that_changes_is_kept_to() -> None:
    limit, call = [4], Call("a", 20, [])
    runners = Runners(lambda: limit[0])
    sending = asyncio.create_task(runners.send_all(call))
    await turns()
    assert len(call.under_way) == 4
    limit[0] = 1
    await call.answer()
    assert len(call.under_way) == 1
    limit[0] = 3
    await call.answer()
    assert len(call.under_way) == 3
    while not sending.done():
        await call.answer()
    assert len(call.sent) == 20


async def test_a_call_without_targets_ends_at_once() -> None:
    await Runners(lambda: 3).send_all(Call("a", 0, []))


async def test_a_cancelled_call_ends_its_requests_and_leaves_those_of_others() -> None:
    sent: list[str] = []
    runners, first, second = Runners(lambda: 4), Call("a", 9, sent), Call("b", 2, sent)
    ending = asyncio.create_task(runners.send_all(first))
    going_on = asyncio.create_task(runners.send_all(second))
    await turns()
    ending.cancel()
    await asyncio.wait([ending])
    assert first.cancelled == ["a0", "a1", "a2", "a3"]
    await turns()
    assert list(second.under_way) == ["b0", "b1"]
    await second.answer()
    await going_on
    assert len(sent) == 6


async def test_a_call_that_is_cancelled_before_its_requests_began_lets_others_begin() -> None:
    sent: list[str] = []
    runners, first, second = Runners(lambda: 1), Call("a", 2, sent), Call("b", 1, sent)

    async def cancel_at_once() -> None:
        asyncio.get_running_loop().call_soon(sending.cancel)
        await runners.send_all(first)

    sending = asyncio.create_task(cancel_at_once())
    await asyncio.wait([sending])
    going_on = asyncio.create_task(runners.send_all(second))
    await turns()
    await second.answer()
    await going_on
    assert "b0" in sent


async def test_an_error_ends_its_call_only() -> None:
    sent: list[str] = []
    runners, first, second = Runners(lambda: 3), Call("a", 2, sent), Call("b", 1, sent)
    failing, going_on = (asyncio.create_task(runners.send_all(call)) for call in (first, second))
    await turns()
    first.under_way["a0"].set_exception(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        await failing
    assert first.cancelled == ["a1"]
    await second.answer()
    await going_on


async def test_a_target_that_cannot_be_rendered_ends_its_call() -> None:
    call = Call("a", 3, [])
    call.is_broken = True
    with pytest.raises(RuntimeError, match="rendered"):
        await Runners(lambda: 2).send_all(call)


async def test_a_call_ends_when_all_its_targets_under_way_have_waited_in_vain() -> None:
    sent: list[str] = []
    runners, first, second = Runners(lambda: 2), Call("a", 9, sent), Call("b", 1, sent)
    sending = asyncio.create_task(runners.send_all(first))
    await turns()
    await first.answer(goes_on=False)
    await sending
    assert sent == ["a0", "a1"]
    assert len(first.left) == 7
    going_on = asyncio.create_task(runners.send_all(second))
    await turns()
    await second.answer()
    await going_on
