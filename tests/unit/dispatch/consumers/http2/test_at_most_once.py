"""No request is accepted twice, and none is reported as not taken that was, however the server cuts.

libcurl by itself sends a request again when a reused connection dies: `test_libcurl_alone_sends_again` shows that the
server of these tests sees it.
"""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pycurl
import pytest
from h2.errors import ErrorCodes

from consumers.delivery.http2.port import Fate, HttpRequest, HttpResponse, RequestFailed
from tests.unit.dispatch.consumers.http2.calls import Outcome, attempt, attempts, opened, until
from tests.unit.dispatch.consumers.http2.frame_server import Cut, FrameServer, Plan, Seen, serving

NOBODY_KNOWS = (Cut.TLS_END, Cut.FIN, Cut.RESET, Cut.BREAK)
"""After these, the client cannot know whether the server has acted."""

OTHER_CODES = (*(code for code in range(14) if code != ErrorCodes.REFUSED_STREAM), 99)
"""After HTTP_1_1_REQUIRED, 13, libcurl goes on by itself with a connection of HTTP/1.1."""


def fates(outcomes: dict[str, Outcome]) -> Counter[Fate | int]:
    return Counter(found.status if isinstance(found, HttpResponse) else found.fate for found in outcomes.values())


def judge(outcomes: dict[str, Outcome], seen: Seen) -> None:
    for name, found in outcomes.items():
        times = seen.accepted[name]
        assert times <= 1, name
        if isinstance(found, HttpResponse):
            assert times == 1, name
        elif found.fate is Fate.NOT_TAKEN:
            assert times == 0, (name, found.reason)


@pytest.mark.parametrize("streams", [1, 2, 10, 100])
@pytest.mark.parametrize("cut", NOBODY_KNOWS)
async def test_what_was_taken_before_a_cut_is_unknown_and_taken_once(
    certificates: Path, cut: Cut, streams: int
) -> None:
    plan = Plan(cut=cut, held=streams, cuts=6)
    async with serving(certificates, plan) as server, opened(certificates, connections=1) as client:
        assert isinstance(await attempt(client, server, "warm"), HttpResponse)
        outcomes = await attempts(client, server, [f"r{number}" for number in range(streams)])
        assert fates(outcomes) == {Fate.UNKNOWN: streams}
        judge(outcomes, server.seen)
        assert isinstance(await attempt(client, server, "after"), HttpResponse)
        assert max(server.seen.accepted.values()) == 1


@pytest.mark.parametrize("cut", [Cut.GO_AWAY, Cut.GO_AWAY_END, Cut.REFUSE])
@pytest.mark.parametrize(("streams", "taken"), [(1, 0), (10, 9), (10, 0), (100, 50)])
async def test_what_the_server_refuses_is_not_taken(certificates: Path, cut: Cut, streams: int, taken: int) -> None:
    taken = 0 if cut is Cut.REFUSE else taken
    rest: Fate | int = Fate.UNKNOWN if cut is Cut.GO_AWAY_END else 200
    plan = Plan(cut=cut, held=streams, taken=taken)
    async with serving(certificates, plan) as server, opened(certificates, connections=1) as client:
        await attempt(client, server, "warm")
        outcomes = await attempts(client, server, [f"r{number}" for number in range(streams)])
        assert fates(outcomes) == Counter({Fate.NOT_TAKEN: streams - taken, rest: taken})
        judge(outcomes, server.seen)
        assert sum(server.seen.accepted.values()) == taken + 1  # warm


@pytest.mark.parametrize("warm", [0, 1])
@pytest.mark.parametrize("streams", [1, 20])
@pytest.mark.parametrize("code", OTHER_CODES, ids=str)
async def test_a_reset_is_no_refusal_unless_its_code_says_so(
    certificates: Path, code: int, streams: int, warm: int
) -> None:
    plan = Plan(cut=Cut.BREAK, code=code, warm=warm, held=streams)
    async with serving(certificates, plan) as server, opened(certificates, connections=1) as client:
        await attempts(client, server, ["warm"] * warm)
        outcomes = await attempts(client, server, [f"r{number}" for number in range(streams)])
        assert fates(outcomes) == {Fate.UNKNOWN: streams}
        assert not any(isinstance(one, RequestFailed) and one.refused for one in outcomes.values())
        judge(outcomes, server.seen)


@pytest.mark.parametrize("cut", [*NOBODY_KNOWS, Cut.GO_AWAY, Cut.REFUSE])
async def test_the_first_requests_of_a_connection_are_taken_once(certificates: Path, cut: Cut) -> None:
    plan = Plan(cut=cut, warm=0, held=20, taken=10, cuts=6)
    async with serving(certificates, plan) as server, opened(certificates, connections=1) as client:
        judge(await attempts(client, server, [f"r{number}" for number in range(20)]), server.seen)


@pytest.mark.parametrize("seed", range(12))
async def test_cuts_at_any_moment_double_nothing(certificates: Path, seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(20, 150)
    held = rng.randint(1, min(count // 2, 100))
    plan = Plan(
        cut=rng.choice([cut for cut in Cut if cut is not Cut.HANG]),
        warm=rng.randint(0, 3),
        held=held,
        taken=rng.randint(0, held),
        cuts=rng.randint(1, 9),
        delay_s=rng.choice([0.0, 0.001]),
    )
    limits = {"connections": rng.randint(1, 3), "streams": rng.randint(held, 100), "timeout_s": 1.0}

    async def late(client: object, server: FrameServer, number: int) -> Outcome:
        await asyncio.sleep(rng.random() * 0.05)
        return await attempt(client, server, f"r{number}", b"b" * rng.randint(1, 3_000))  # type: ignore[arg-type]

    async with serving(certificates, plan) as server, opened(certificates, **limits) as client:
        found = await asyncio.gather(*(late(client, server, number) for number in range(count)))
        judge({f"r{number}": outcome for number, outcome in enumerate(found)}, server.seen)


async def test_a_stream_without_answer_times_out_alone(certificates: Path) -> None:
    plan = Plan(cut=Cut.HANG, warm=3, held=1)
    async with (
        serving(certificates, plan) as server,
        opened(certificates, connections=1, timeout_s=1.0) as client,
    ):
        outcomes = await attempts(client, server, [f"r{number}" for number in range(4)])
        assert fates(outcomes) == {200: 3, Fate.UNKNOWN: 1}
        judge(outcomes, server.seen)
        assert server.seen.connections == 1


async def test_a_large_body_that_was_begun_is_unknown(certificates: Path) -> None:
    """The server's window holds a part of it, so no server had all of it; the client does not see that."""
    plan = Plan(window=1_000, cut=Cut.HANG, warm=0, held=9)
    async with serving(certificates, plan) as server, opened(certificates, timeout_s=1.0) as client:
        found = await attempt(client, server, "large", b"b" * 200_000)
        assert isinstance(found, RequestFailed)
        assert found.fate is Fate.UNKNOWN


async def test_a_large_body_arrives_whole(certificates: Path) -> None:
    body = random.Random(1).randbytes(300_000)
    async with serving(certificates, Plan()) as server, opened(certificates) as client:
        assert isinstance(await attempt(client, server, "large", body), HttpResponse)
        assert server.seen.bodies["large"] == body


@pytest.mark.parametrize("cut", [Cut.FIN, Cut.RESET])
async def test_libcurl_alone_sends_again(certificates: Path, cut: Cut) -> None:
    """With a body that libcurl can read twice, it does: why the body comes from a function without a way back."""
    async with serving(certificates, Plan(cut=cut)) as server, pycurl.AsyncCurlMulti() as multi:
        for name in ("warm", "doubled"):
            handle = pycurl.Curl()
            handle.setopt(pycurl.URL, server.url)
            handle.setopt(pycurl.CAINFO, str(certificates / "ca.pem"))
            handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE)
            handle.setopt(pycurl.HTTPHEADER, [f"x-id: {name}"])
            handle.setopt(pycurl.WRITEFUNCTION, lambda data: None)
            handle.setopt(pycurl.POSTFIELDS, b"{}")
            handle.setopt(pycurl.TIMEOUT_MS, 2_000)
            try:
                await multi.perform(handle)
            except pycurl.error:
                assert name == "doubled"
        assert server.seen.accepted["doubled"] > 1


async def test_a_cancelled_call_is_taken_at_most_once(certificates: Path) -> None:
    plan = Plan(cut=Cut.HANG, warm=0)
    async with serving(certificates, plan) as server, opened(certificates, connections=1) as client:
        request = HttpRequest(url=server.url, body=b"{}", headers=(("x-id", "cancelled"),))
        call = asyncio.ensure_future(client.send(request))
        await until(lambda: "cancelled" in server.seen.accepted)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        outcomes = await attempts(client, server, [f"r{number}" for number in range(10)])
        assert fates(outcomes) == {200: 10}
        assert server.seen.accepted["cancelled"] == 1
        assert server.seen.connections == 1
