"""Every request passes the door's checks, and every error is a problem that tells nothing of the inside."""

import asyncio
import threading

import pytest

from dispatcher.access.principal import Principal, Scope
from producers.desk.access_book import UnknownKey
from tests.unit.web.stub_server import HEAD, KEY, Reply, StubDoor, served, until

NO_KEY = "Host: localhost\r\n"


async def test_a_request_without_a_key_is_refused_before_its_body_is_read() -> None:
    async with served() as server:
        reader, writer = await server.connect()
        writer.write(f"POST /v1/tasks HTTP/1.1\r\n{NO_KEY}Content-Length: 8000000\r\n\r\n".encode())
        assert b" 401 " in await reader.readuntil(b"\r\n\r\n")  # no byte of the body was sent
        writer.close()


async def test_a_client_without_a_key_is_not_asked_for_its_body() -> None:
    async with served() as server:
        head = "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        for own, first in ((NO_KEY, b" 401 "), (HEAD, b" 100 ")):
            reader, writer = await server.connect()
            writer.write(f"POST /v1/tasks HTTP/1.1\r\n{own}{head}".encode())
            assert first in await reader.readline()
            writer.close()


async def test_a_client_that_waits_for_a_word_is_answered_once() -> None:
    async with served() as server:
        reader, writer = await server.connect()
        writer.write(f"POST /v1/tasks HTTP/1.1\r\n{HEAD}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert b" 422 " in await reader.readline()
        writer.close()


class ForgetfulDoor(StubDoor):
    """A door that hears of KEY late. ages_s: of its copy, at each question until then."""

    def __init__(self, *ages_s: float) -> None:
        super().__init__()
        self.ages_s = list(ages_s)

    def principal(self, token: str) -> Principal:
        if self.ages_s:
            raise UnknownKey(self.ages_s.pop(0))
        return super().principal(token)


async def test_a_key_is_unknown_only_after_a_look_that_began_after_the_request() -> None:
    for door, status, left in (
        (ForgetfulDoor(60.0, 60.0), 200, 0),
        (ForgetfulDoor(-1.0, 60.0), 401, 1),
    ):
        async with served(door) as server:
            assert (await server.ask("GET /v1/tasks")).status == status
        assert len(door.ages_s) >= left


async def test_a_key_without_the_scope_is_forbidden() -> None:
    async with served(StubDoor(scopes=frozenset({Scope.READ}))) as server:
        reply = await server.ask("POST /v1/tasks", b"not JSON")
    assert reply.status == 403
    assert reply.document["type"].endswith("#forbidden")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /nothing", 404),
        ("GET /v1/nothing", 404),
        ("GET //v1/tasks", 404),
        ("GET /v1//tasks", 404),
        ("GET /v1/tasks/", 404),
        ("GET /v1/tasks/..%2f..%2fetc", 404),
        ("GET /v1/tasks/a%2Fwhy", 404),
        ("GET /v1/tasks/%00", 404),
        ("GET /v1/tasks/%FF%FE", 404),
        ("GET /v1/tasks/%ED%A0%80", 404),
        ("GET /v1/tasks/%", 404),
        ("GET /v1/tasks/%25", 404),
        (f"GET /v1/tasks/{'a' * 8_000}", 404),
        ("GET /v1/tasks/%E2%80%AE%3Cscript%3E", 404),
        ("DELETE /v1/tasks", 405),
        ("OPTIONS /v1/tasks", 405),
        ("OPTIONS *", 404),
        ("TRACE /v1/tasks", 405),
        ("GET /v1/tasks?limit=%FF", 422),
        ("GET /v1/tasks?limit=1&limit=2", 422),
        ("GET /v1/tasks?unknown=1", 422),
        ("GET /v1/tasks?" + "a=1&" * 1_500, 422),
        ("GET http://localhost/v1/tasks", 200),
        ("GET http://other/v1/tasks", 421),
    ],
)
async def test_an_odd_path_gets_a_problem_of_its_own(line: str, status: int) -> None:
    async with served() as server:
        reply = await server.ask(line)
    assert reply.status == status
    if status >= 400:
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.document["status"] == status
        assert reply.document["request_id"] == reply.headers["x-request-id"]
        assert ("allow" in reply.headers) == (status == 405)


async def test_head_is_answered_as_get_without_its_body() -> None:
    async with served() as server:
        got, head = await server.ask("GET /v1/tasks"), await server.ask("HEAD /v1/tasks")
        refused = await server.ask("HEAD /v1/tasks", headers=NO_KEY)
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", got.headers["content-length"])
    assert (refused.status, refused.body) == (401, b"")


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("LOCALHOST:80", 200), ("127.0.0.1:9", 200), ("[::1]:9", 200), ("other", 421), ("", 421)],
)
async def test_only_known_hosts_are_answered(host: str, status: int) -> None:
    async with served() as server:
        assert (await server.ask("GET /livez", headers=f"Host: {host}\r\n")).status == status


async def test_a_failure_tells_the_client_its_id_alone_and_the_log_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    async with served(StubDoor(fails_with=RuntimeError("inside"))) as server:
        reply = await server.ask("GET /v1/tasks?app=%0Aforged")
    assert reply.status == 500
    assert b"inside" not in reply.body
    (record,) = caplog.records
    assert reply.document["request_id"] in record.getMessage()
    assert "inside" in caplog.text
    assert KEY not in caplog.text
    assert "\n" not in record.getMessage()


async def test_answers_do_not_name_the_software() -> None:
    async with served() as server:
        for line in ("GET /livez", "GET /nothing", "FOO /"):
            assert (await server.ask(line)).headers["server"] == "fairlane"


async def test_one_app_cannot_take_all_threads() -> None:
    door = StubDoor(app="shop", open=threading.Event())
    async with served(door) as server:
        door.open.clear()
        waiting = [asyncio.create_task(server.ask("GET /v1/tasks")) for _ in range(70)]
        await until(lambda: server.figures.in_flight == 70, "more requests than threads")
        door.app = "other"
        assert (await server.ask("GET /v1/tasks/1")).status == 404
        door.open.set()
        assert {reply.status for reply in await asyncio.gather(*waiting)} == {200}


async def test_an_unauthenticated_connection_is_not_kept() -> None:
    async with served() as server:
        reply = Reply.parse(await server.say(f"GET /v1/tasks HTTP/1.1\r\n{NO_KEY}\r\n".encode()))
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "bearer"
