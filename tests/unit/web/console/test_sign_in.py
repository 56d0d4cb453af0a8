"""Signing in and out of the console: by a key, by a link from the terminal, and by a proxy's user."""

import asyncio
from http.cookies import SimpleCookie
from io import BytesIO
from pathlib import Path

import pytest

from backends.redis.registry.sessions import IDLE_S, LINK_S
from dispatcher.access.principal import Scope
from dispatcher.model.errors import InvalidInput, NotFound
from producers.desk.access_book import READS_S, SILENT_S
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.console_world import MemoryDoor, Visitor, visited
from web.console.pages import PAGES
from web.listening import ServerSettings

UNSAFE = [
    "/sign-in", "/sign-out", "/sign-in/secret",
    *(f"{page.path.rstrip('/').replace('{id}', 'sale')}/{form}" for page in PAGES for form in page.forms),
]  # fmt: skip
HEADER = "X-Forwarded-User"


@pytest.fixture
def door() -> MemoryDoor:
    made = MemoryDoor(DeskWorld())
    made.world.board.read()
    made.world.board.show()
    return made


def offered(door: MemoryDoor) -> str:
    return f"/sign-in/{door.sessions.offer()}"


async def is_in(visitor: Visitor) -> bool:
    return (await visitor.get("/")).status == 200


# ------------------------------------------------------------------------------ sessions


async def test_key_opens_a_session_whose_cookie_scripts_and_other_sites_do_not_get(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        answer = await visitor.sign_in(door.key())
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        (cookie,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
        assert (cookie.key, cookie["httponly"], cookie["samesite"], cookie["path"]) == ("fairlane", True, "Strict", "/")
        assert not cookie["domain"]
        assert await is_in(visitor)


async def test_cookie_is_bound_to_the_host_and_to_tls_behind_a_proxy(door: MemoryDoor) -> None:
    async with visited(door, behind_proxy=True) as visitor:
        answer = await visitor.sign_in(door.key())
        (cookie,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
        assert (cookie.key, cookie["secure"], cookie["path"], cookie["domain"]) == ("__Host-fairlane", True, "/", "")
        assert await is_in(visitor)


async def test_cookie_is_not_in_redis(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        await visitor.sign_in(door.key())
        secret = visitor.cookie.partition("=")[2]
        keys = door.world.service.view.command("SCAN", 0)[1]
        assert any(b":session:" in key for key in keys)
        assert all(secret.encode() not in key for key in keys)


@pytest.mark.parametrize("key", ["", "wrong", "flk_000000000000_" + "s" * 43, "\x00", "é" * 9_000])
async def test_wrong_key_opens_nothing(door: MemoryDoor, key: str) -> None:
    async with visited(door) as visitor:
        answer = await visitor.sign_in(key)
        assert (answer.status, visitor.cookie) == (401, "")
        assert "Sign in" in answer.text


async def test_cookie_that_was_copied_ends_with_signing_out(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        await visitor.sign_in(door.key())
        copied = visitor.cookie
        answer = await visitor.send("/sign-out")
        assert (answer.status, answer.headers["Location"]) == (303, "/sign-in")
        assert 'fairlane=""' in answer.headers["Set-Cookie"]
        visitor.cookie = copied
        assert not await is_in(visitor)


async def test_session_ends_within_a_second_after_its_key_was_revoked(door: MemoryDoor) -> None:
    door.book.start()
    try:
        async with visited(door) as visitor:
            key = door.key()
            await visitor.sign_in(key)
            door.world.client.access.revoke(key.split("_")[1])
            async with asyncio.timeout(1):
                while await is_in(visitor):  # noqa: ASYNC110  # what changes is on the other side
                    await asyncio.sleep(0.05)
            assert "ended with its key" in (await visitor.get("/")).text
    finally:
        door.book.close()


async def test_session_ends_eight_hours_after_its_last_use(door: MemoryDoor) -> None:
    clock = door.world.service.clock
    async with visited(door) as visitor:
        await visitor.sign_in(door.key())
        for _ in range(3):
            clock.advance(IDLE_S - 1)
            door.book.follow()
            assert await is_in(visitor)
        clock.advance(IDLE_S + 1)
        door.book.follow()
        assert not await is_in(visitor)


async def test_rights_are_read_for_each_request(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        await visitor.sign_in(door.key(Scope.READ, app="shop"))
        assert (await visitor.get("/audit")).status == 403


@pytest.mark.parametrize(
    "cookie",
    ["fairlane=", "fairlane=é", "fairlane=%00", "=", ";;;", "fairlane=a; fairlane=b", f"fairlane={'x' * 7_000}"],
)
async def test_cookie_of_nonsense_is_nobody(door: MemoryDoor, cookie: str) -> None:
    async with visited(door) as visitor:
        visitor.cookie = cookie
        assert (await visitor.get("/")).status in (303, 401)


async def test_cookie_of_ten_kilobytes_is_refused(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        visitor.cookie = f"fairlane={'x' * 10_240}"
        assert (await visitor.get("/")).status in (400, 431)


async def test_oldest_session_of_a_key_ends_with_one_too_many(
    door: MemoryDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.redis.registry.sessions.MAX_SESSIONS", 2)
    async with visited(door) as visitor:
        key, other, cookies = door.key(), door.key(), list[str]()
        for signed_in in (other, key, key, key):
            door.world.service.clock.advance(1)
            door.book.follow()
            await visitor.sign_in(signed_in)
            cookies.append(visitor.cookie)
        for cookie, is_good in zip(cookies, (True, False, True, True), strict=True):
            visitor.cookie = cookie
            assert await is_in(visitor) is is_good


# ------------------------------------------------------------------------------ links


@pytest.mark.parametrize("kind", ["text/html", "*/*"])
async def test_link_is_in_no_log_if_it_fails(
    door: MemoryDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    monkeypatch.setattr(door.sessions, "spend", lambda _: 1 / 0)
    async with visited(door, is_local=True) as visitor:
        link = offered(door)
        assert (await visitor.ask("POST", link, {"Accept": kind})).status == 500
    assert "failed: POST" in caplog.text
    assert link.rpartition("/")[2] not in caplog.text


async def test_link_is_spent_by_its_button_and_not_by_being_read(door: MemoryDoor) -> None:
    async with visited(door, is_local=True) as visitor:
        link = offered(door)
        for method in ("GET", "HEAD", "GET"):
            page = await visitor.ask(method, link)
            assert (page.status, page.headers["Referrer-Policy"]) == (200, "no-referrer")
        assert (await visitor.send(link)).status == 303
        assert await is_in(visitor)
        assert (await visitor.get("/audit")).status == 200


async def test_link_works_once_for_two_who_use_it_at_the_same_time(door: MemoryDoor) -> None:
    async with visited(door, is_local=True) as visitor:
        link = offered(door)
        answers = await asyncio.gather(*(visitor.send(link) for _ in range(8)))
        assert sorted(answer.status for answer in answers) == [303, *[401] * 7]
        assert (await visitor.send(link)).status == 401


async def test_link_ends_after_ten_minutes(door: MemoryDoor) -> None:
    async with visited(door, is_local=True) as visitor:
        link = offered(door)
        door.world.service.clock.advance(LINK_S + 1)
        answer = await visitor.send(link)
        assert answer.status == 401
        assert "too old, or was used" in answer.text


async def test_link_of_a_server_that_offers_none_does_not_exist(door: MemoryDoor) -> None:
    link = offered(door)
    for settings in ({"behind_proxy": True, "is_local": True}, {"is_local": False}):
        async with visited(door, **settings) as visitor:
            assert (await visitor.get(link)).status == 404
            assert (await visitor.send(link)).status == 404
    assert not ServerSettings(is_local=True, unix_socket=Path("api.sock")).offers_link
    assert not ServerSettings(is_local=True, host="0.0.0.0").offers_link


# ------------------------------------------------------------------------------ other sites


@pytest.mark.parametrize("site", [None, "cross-site", "same-site", "none", "same-origin, cross-site", "SAME-ORIGIN"])
async def test_form_that_another_site_may_have_sent_is_refused(door: MemoryDoor, site: str | None) -> None:
    async with visited(door, is_local=True) as visitor:
        await visitor.sign_in(door.key())
        for path in UNSAFE:
            answer = await visitor.ask("POST", path, {"Sec-Fetch-Site": site})
            assert (answer.status, "Set-Cookie" in answer.headers) == (403, False), path
        assert await is_in(visitor)


@pytest.mark.parametrize(
    "to",
    ["//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "/\r\nX: y", "", "tasks", "/é"],
)
async def test_signing_in_leads_to_no_other_site(door: MemoryDoor, to: str) -> None:
    async with visited(door) as visitor:
        assert (await visitor.sign_in(door.key(), to=to)).headers["Location"] == "/"


async def test_signing_in_leads_back_to_the_page_that_was_asked_for(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        first = await visitor.get("/tasks?state=running&q=%22a%20b")
        assert first.status == 303
        page = await visitor.get(first.headers["Location"])
        assert 'value="/tasks?state=running&amp;q=%22a%20b"' in page.text
        answer = await visitor.sign_in(door.key(), to="/tasks?state=running&q=%22a%20b")
        assert answer.headers["Location"] == "/tasks?state=running&q=%22a%20b"


# ------------------------------------------------------------------------------ nonsense


async def test_huge_form_is_refused(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        assert (await visitor.ask("POST", "/sign-in", data=BytesIO(b"x" * (2 << 20)))).status == 413


@pytest.mark.parametrize("field", ["a=1&", "a=%0A&", "&"])
async def test_form_of_very_many_fields_is_refused(door: MemoryDoor, field: str) -> None:
    """A page that asks for them again took seconds, in which the process answered nobody."""
    async with visited(door) as visitor:
        await visitor.sign_in(door.key())
        for path in ("/sign-in", "/limits/channel"):
            answer = await visitor.ask("POST", path, data=field * 1_001)
            assert (answer.status, "1,000 fields" in answer.text, len(answer.text) < 10_000) == (422, True, True)


@pytest.mark.parametrize(
    "path", ["/nowhere", "/static/nothing.css", "/sign-in/x/y", "/tasks/sale/nowhere/x", "/sign-out"]
)
async def test_unknown_page_is_a_page_for_browsers_and_a_problem_for_programs(door: MemoryDoor, path: str) -> None:
    async with visited(door) as visitor:
        page = await visitor.get(path)
        assert page.status in (404, 405)
        assert page.headers["Content-Type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        problem = await visitor.get(path, Accept="*/*")
        assert (problem.status, problem.headers["Content-Type"]) == (page.status, "application/problem+json")


async def test_unknown_route_of_the_api_is_a_problem_for_browsers_too(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        assert (await visitor.get("/v1/nowhere")).headers["Content-Type"] == "application/problem+json"


async def test_head_of_a_page_has_no_body(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        await visitor.sign_in(door.key())
        for page in PAGES:
            if "{" not in page.path:
                answer = await visitor.ask("HEAD", page.path)
                assert (answer.status, answer.text) == (200, ""), page.path


async def test_file_is_sent_once(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        first = await visitor.get("/static/console.css")
        assert (first.status, first.headers["Content-Type"]) == (200, "text/css; charset=utf-8")
        again = await visitor.get("/static/console.css", **{"If-None-Match": first.headers["ETag"]})
        assert (again.status, again.text, again.headers["Cache-Control"]) == (304, "", "no-cache")
        assert (await visitor.get("/static/..%2fsite.py")).status == 404


# ------------------------------------------------------------------------------ without Redis


async def test_session_goes_on_for_a_minute_without_redis(door: MemoryDoor) -> None:
    async with visited(door) as visitor:
        await visitor.sign_in(door.key())
        assert await is_in(visitor)
        door.world.service.redis.gone = True
        assert await is_in(visitor)
        door.world.service.clock.advance(READS_S + 1)
        assert (await visitor.get("/")).status == 503


async def test_pages_do_not_wait_for_redis_again_while_it_is_silent(
    door: MemoryDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 15 s each until a server that hangs was given up, and the list of tasks looked new."""
    async with visited(door) as visitor:
        await visitor.sign_in(door.key())
        await visitor.get("/tasks")
        door.world.service.clock.advance(SILENT_S + 1)
        monkeypatch.setattr(door.sessions, "_table", None)
        monkeypatch.setattr(door.world.connection, "registry", None)
        page = await visitor.get("/tasks")
        assert (page.status, 'class="stale"' in page.text, "not confirmed for 4 s" in page.text) == (200, True, True)


async def test_session_that_this_server_has_not_seen_is_not_waited_for_either(
    door: MemoryDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visited(door) as visitor:
        await visitor.sign_in(door.key())
        door.world.service.clock.advance(SILENT_S + 1)
        monkeypatch.setattr(door.sessions, "_table", None)
        page = await visitor.get("/tasks")
        assert (page.status, "not confirmed for 4 s" in page.text) == (503, True)


async def test_steps_without_redis_say_so(door: MemoryDoor) -> None:
    async with visited(door, is_local=True) as visitor:
        key, link = door.key(), offered(door)
        await visitor.sign_in(key)
        door.world.service.redis.gone = True
        for path, fields in (("/sign-in", {"key": key}), (link, {}), ("/sign-out", {})):
            answer = await visitor.send(path, fields)
            assert (answer.status, "Set-Cookie" in answer.headers) == (503, False), path
            assert "Redis does not answer. <strong>Try again later." in answer.text, "addresses are nobody's business"
        assert (await visitor.get("/")).status == 503, "who signed out stays out while Redis is gone"
        door.world.service.redis.gone = False
        assert (await visitor.send(link)).status == 303, "a link that was not spent is good"


# ------------------------------------------------------------------------------ users of a proxy


def test_user_header_needs_a_unix_socket() -> None:
    with pytest.raises(InvalidInput, match="--unix-socket"):
        ServerSettings(user_header=HEADER, behind_proxy=True).check()
    ServerSettings(user_header=HEADER, unix_socket=Path("api.sock")).check()


async def test_user_of_the_proxy_has_the_rights_that_were_given(door: MemoryDoor, tmp_path: Path) -> None:
    access = door.world.client.access
    access.set_user("ana@shop.example", ["operator"])
    access.set_user("bob", ["read"], "shop")
    door.book.follow()
    async with visited(door, unix_socket=tmp_path / "api.sock", user_header=HEADER) as visitor:
        for name, path, status in (
            ("ana@shop.example", "/audit", 200), ("bob", "/", 200), ("bob", "/audit", 403), ("eve", "/", 403),
            ("local", "/", 403), ("", "/", 403), ("BOB", "/", 403),
        ):  # fmt: skip
            assert (await visitor.get(path, **{HEADER: name})).status == status, (name, path)
        assert "a user who may do nothing" in (await visitor.get("/", **{HEADER: "<eve>"})).text
        assert "Sign out" not in (await visitor.get("/", **{HEADER: "bob"})).text
        access.remove_user("bob")
        door.book.follow()
        assert (await visitor.get("/", **{HEADER: "bob"})).status == 403


async def test_request_without_one_user_is_refused(door: MemoryDoor, tmp_path: Path) -> None:
    door.world.client.access.set_user("ana", ["operator"])
    door.book.follow()
    async with visited(door, unix_socket=tmp_path / "api.sock", user_header=HEADER) as visitor:
        assert (await visitor.get("/")).status == 403
        assert (await visitor.get("/", **{HEADER: "ana", HEADER.lower(): "eve"})).status == 403
        assert (await visitor.sign_in(door.key())).status in (404, 405)


async def test_header_means_nothing_to_a_server_without_a_proxy(door: MemoryDoor) -> None:
    door.world.client.access.set_user("ana", ["operator"])
    door.book.follow()
    async with visited(door) as visitor:
        assert (await visitor.get("/", **{HEADER: "ana"})).status == 303


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "a:b", "é", "-a", "x" * 101, "a\n", "local"])
def test_user_of_a_name_that_no_header_has_is_refused(door: MemoryDoor, name: str) -> None:
    with pytest.raises(InvalidInput, match="user: "):
        door.world.client.access.set_user(name, ["read"])
    with pytest.raises(NotFound):
        door.world.client.access.remove_user(name)


def test_rights_that_no_user_may_have_are_refused(door: MemoryDoor) -> None:
    for scopes, app in ((["operator"], "shop"), ([], None), (["write"], None), (["read"], ""), (["read"], "a--b")):
        with pytest.raises(InvalidInput):
            door.world.client.access.set_user("ana", scopes, app)
    assert door.world.client.access.users() == {}


def test_users_are_in_the_audit_and_kept_by_the_topic(door: MemoryDoor) -> None:
    access = door.world.client.access
    access.set_user("ana@shop.example", ["read", "control"], "shop")
    access.remove_user("ana@shop.example")
    assert [entry.field for entry in door.world.client.audit(2)] == ["user:ana@shop.example"] * 2
    assert access.users() == {}


# ------------------------------------------------------------------------------ requests of an app


async def test_requests_of_an_app_count_against_its_policy(door: MemoryDoor) -> None:
    door.world.allow("shop", requests_s=2)
    key = door.key(Scope.READ, Scope.CONTROL, app="shop")
    async with visited(door) as visitor:
        assert (await visitor.sign_in(key)).status == 303
        assert (await visitor.get("/")).status == 200
        for answer in (await visitor.get("/tasks"), await visitor.sign_in(key), await visitor.send("/tasks/change")):
            assert (answer.status, "allows 2 requests a second" in answer.text) == (429, True)
        assert (await visitor.sign_in(door.key())).status == 303
