"""`python -m benchmarks api` without servers of Fairlane: its clients, and the audience that it uploads."""

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.api.connection import Connection, at_once, at_rate, quantile_ms
from benchmarks.api.upload import write_audience
from benchmarks.counting import DIGITS
from dispatcher.model.errors import FairlaneError


def server() -> TestServer:
    async def answer(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != "Bearer key":
            raise web.HTTPUnauthorized
        await asyncio.sleep(0.02)
        return web.json_response({"path": request.path, "given": await request.json() if request.can_read_body else 0})

    app = web.Application()
    app.router.add_route("*", "/{path}", answer)
    return TestServer(app)


async def test_connection_makes_a_request_after_the_other() -> None:
    async with server() as here:
        connection = await Connection.open(here.port or 0, "key")
        for number in range(3):
            body = await connection.ask("POST", f"/{number}", {"n": number})
            assert json.loads(body) == {"path": f"/{number}", "given": {"n": number}}
        connection.close()


async def test_refused_request_ends_the_measurement() -> None:
    async with server() as here:
        with pytest.raises(ExceptionGroup) as raised:
            await at_once(here.port or 0, "other", 2, 60, lambda connection, _: asked(connection))
        assert raised.group_contains(FairlaneError, match="answered with 401")


async def asked(connection: Connection) -> None:
    await connection.ask("GET", "/x")


async def test_requests_at_a_rate_are_timed_from_when_they_are_due() -> None:
    async with server() as here:
        took = await at_rate(here.port or 0, "key", 100, 0.2, ["/a", "/b"])
    assert {path: len(times) for path, times in took.items()} == {"/a": 10, "/b": 10}
    assert min(map(min, took.values())) >= 0.02


def test_quantiles_are_in_milliseconds() -> None:
    assert quantile_ms([0.003, 0.001, 0.002], 0.5) == 2
    assert quantile_ms([0.001], 0.99) == 1


def test_targets_of_the_audience_end_with_their_numbers(tmp_path: Path) -> None:
    write_audience(tmp_path / "a.ndjson", 10_007)
    targets = [json.loads(line) for line in (tmp_path / "a.ndjson").read_text().splitlines()]
    assert [int(target[-DIGITS:]) for target in targets] == list(range(10_007))
    assert {len(target) for target in targets} == {64}
