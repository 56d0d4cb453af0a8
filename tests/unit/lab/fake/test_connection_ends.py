"""GOAWAY, resets and half-open connections: the client's word on what was taken agrees with the fake's accounts."""

import asyncio
from pathlib import Path

from consumers.delivery.http2.port import Fate, HttpResponse, RequestFailed
from lab.fake.rules import read_rules
from tests.unit.lab.fake.playing import Outcome, Playing, apns, apns_target, fcm, fcm_target


async def many(playing: Playing, count: int) -> dict[str, Outcome]:
    targets = [fcm_target(number) for number in range(count)]
    found = await asyncio.gather(*(playing.attempt(target) for target in targets))
    return dict(zip(targets, found, strict=True))


def check(playing: Playing, found: dict[str, Outcome]) -> None:
    """A request that was answered was taken once; one that was not taken is not in the accounts."""
    accepted = playing.site.accounts.accepted
    for target, one in found.items():
        if isinstance(one, HttpResponse):
            assert accepted[target] == 1
        elif one.fate is Fate.NOT_TAKEN:
            assert accepted[target] == 0
        else:
            assert accepted[target] <= 1


async def test_goaway_after_some_requests(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"goaway": {"after": 10}}, connections=1) as playing:
        found = {}
        for number in range(35):
            found[fcm_target(number)] = await playing.attempt(fcm_target(number))
        check(playing, found)
        assert all(isinstance(one, HttpResponse) for one in found.values())
        assert playing.site.accounts.connections >= 3


async def test_streams_above_the_last_are_not_taken(tmp_path: Path) -> None:
    async with fcm(tmp_path, connections=1) as playing:
        assert (await playing.push(fcm_target(99))).status == 200
        rules = {"goaway": {"after": 11, "untaken": 5}, "latency_ms": [50, 50]}
        playing.site.set_rules(read_rules(rules, playing.site.provider.table))
        found = await many(playing, 15)  # and one before
        check(playing, found)
        untaken = [one for one in found.values() if isinstance(one, RequestFailed)]
        assert {one.fate for one in untaken} == {Fate.NOT_TAKEN}
        assert len(untaken) == 5
        assert playing.site.accounts.accepted.total() == 11


async def test_a_goaway_does_not_wait_for_requests_that_do_not_come(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"goaway": {"after": 1, "untaken": 500}}, connections=1) as playing:
        found = await many(playing, 5)
        check(playing, found)
        assert any(isinstance(one, RequestFailed) and one.fate is Fate.NOT_TAKEN for one in found.values())


async def test_a_reset_leaves_requests_unknown(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"reset_after": 5, "latency_ms": [50, 50]}, connections=1) as playing:
        found = await many(playing, 5)
        check(playing, found)
        unknown = [one for one in found.values() if isinstance(one, RequestFailed) and one.fate is Fate.UNKNOWN]
        assert len(unknown) == 5
        assert playing.site.accounts.accepted.total() == 5


async def test_a_half_open_connection_takes_and_never_answers(tmp_path: Path) -> None:
    async with fcm(tmp_path, {"half_open_after": 2}, connections=1, timeout_s=1.0) as playing:
        assert [(await playing.push(fcm_target(number))).status for number in range(2)] == [200, 200]
        lost = await playing.attempt(fcm_target(9))
        assert isinstance(lost, RequestFailed)
        assert lost.fate is Fate.UNKNOWN
        assert playing.site.accounts.accepted[fcm_target(9)] == 1


async def test_the_limit_of_streams_changes_on_open_connections(tmp_path: Path) -> None:
    async with apns(tmp_path, {"latency_ms": [20, 20]}, connections=1) as playing:
        await playing.push(apns_target(0))
        playing.site.set_rules(read_rules({"streams": 3, "latency_ms": [20, 20]}, playing.site.provider.table))
        await playing.push(apns_target(0))
        began_s = asyncio.get_running_loop().time()
        found = await asyncio.gather(*(playing.attempt(apns_target(number)) for number in range(30)))
        assert all(isinstance(one, HttpResponse) for one in found)
        assert asyncio.get_running_loop().time() - began_s >= 0.2  # ten rounds of three
