"""The console's addresses: pages, their forms, signing in and out, and files."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from dispatcher.access.actions import ACTIONS
from dispatcher.access.principal import Principal
from dispatcher.model.errors import FairlaneError, Forbidden, InvalidInput, NoKey, NotReady, Unreachable
from producers.desk.front_door import FrontDoor
from producers.desk.guard import check_right
from web import problems
from web.bodies import Room, read_body
from web.console.page import Form, Page, Plan, Visit
from web.console.pages import PAGES
from web.console.render import environment, render
from web.console.shown import FRESH_S, LastShown, Shown
from web.encoding import csv_of
from web.listening import ServerSettings
from web.middleware import Threads, principal_of

FORM_BYTES = 1 << 20
MAX_FIELDS = 1_000
"""Fields and line feeds of a form: a page that asks again has a field for each, and is made while nobody is heard."""
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": CSP, "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}
STATIC = Path(__file__).parent / "static"
_FRAME_FIELDS = ("confirm", "typed", "shown", "seen")
"""Fields of forms that are the frame's own."""
COOKIE_S = 30 * 86_400
"""The browser keeps the cookie for longer than any session lasts."""
PATIENCE_S = 1.0
"""For how long silent servers are waited for: most of a page needs one of them only."""
LATE_S = 10.0
"""Above this age of the board its figures are shown as old."""
_HERE = re.compile(r"/(?![/\\])[!-~]*")
"""Addresses of this site. Browsers leave out tabs, and take a backslash for a slash."""
T = TypeVar("T")
_PRINCIPAL = web.RequestKey("principal", Principal)
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Console:
    """The console of one process."""

    def __init__(self, door: FrontDoor, threads: Threads, settings: ServerSettings) -> None:
        self._door = door
        self._threads = threads
        self._room = Room()
        self._last = LastShown()
        self._ahead = set[asyncio.Future[None]]()
        self._settings = settings
        self._secure = settings.is_secure
        self._cookie = "__Host-fairlane" if self._secure else "fairlane"
        self._files = {path.name: path.read_bytes() for path in STATIC.iterdir()}
        environment()

    def add_to(self, app: web.Application) -> None:
        """Add all addresses."""
        router = app.router
        for page in PAGES:
            router.add_get(page.path, partial(self._show, page))
            for name, form in page.forms.items():
                router.add_post(f"{page.path.rstrip('/')}/{name}", partial(self._send, page, form))
        router.add_get("/static/{name}", self._file)
        if self._settings.user_header:
            return
        router.add_get("/sign-in", self._sign_in_page)
        router.add_post("/sign-in", self._sign_in)
        router.add_post("/sign-out", self._sign_out)
        if self._settings.offers_link:
            router.add_get("/sign-in/{secret}", self._link_page)
            router.add_post("/sign-in/{secret}", self._spend_link)

    @web.middleware
    async def answer_people(self, request: web.Request, handler: Handle) -> web.StreamResponse:
        """Give browsers pages in place of problems."""
        is_browser = "text/html" in request.headers.get("Accept", "") or "X-Part" in request.headers
        if not is_browser or request.path.startswith("/v1/"):
            return await handler(request)
        try:
            return await handler(request)
        except NoKey as error:
            is_read = request.method in ("GET", "HEAD")
            to = request.path_qs if is_read else "/"
            if is_read and "X-Part" not in request.headers and self._cookie not in request.cookies:
                return _see(f"/sign-in?{urlencode({'to': to})}")
            return self._html("sign_in", request, Shown({"to": to}, trouble=error), 401)
        except Exception as error:
            problem = problems.problem_of(error)
            if problem.kind is problems.INTERNAL:
                problems.log_failure(request)
            next_step = problem.document(request[problems.ID])["next_step"]
            shown = Shown({"sent": request.method == "POST"}, trouble=FairlaneError(problem.detail, next_step))
            try:
                return self._html("problem", request, shown, problem.kind.status)
            except Exception:
                return web.Response(text=f"{problem.detail} {next_step}", status=problem.kind.status, headers=HEADERS)

    async def _show(self, page: Page, request: web.Request) -> web.StreamResponse:
        visit = await self._visit(page, request)
        try:
            shown = await self._shown(page, visit, is_update="X-Part" in request.headers)
        except InvalidInput as error:
            given: dict[str, Any] = {name: [value] for name, value in visit.query.items()}
            asked = {"fields": given, "address": request.path, "method": "get"}
            return self._again(page, request, asked, error)
        if visit.query.get("format") == "csv" and shown.context is not None:
            rows = shown.context["rows"]
            if isinstance(rows, Mapping):  # by the name of the table, the first by default
                rows = rows.get(visit.query.get("table", ""), next(iter(rows.values())))
            body = csv_of(rows)
            is_cut = shown.context.get("cursor") or shown.context.get("older")
            name = f"{page.name}-first-{len(rows)}" if is_cut else page.name
            named = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
            return web.Response(body=body, content_type="text/csv", charset="utf-8", headers=named)
        return self._html(page.name, request, shown, page=page)

    async def _shown(self, page: Page, visit: Visit, *, is_update: bool) -> Shown:
        """Read a page; return it as it was read last if a silent server is needed for it.

        is_update: of a page that is open, which will ask again.
        """
        silence, pulsar = None if page.is_of_silence else self._door.book.silence, self._door.pulsar
        try:
            shown = await self._heard(visit, partial(self._last.read, page, silence=silence, is_update=is_update))
        except (NotReady, Unreachable) as error:
            return self._last.last(page, visit, error)
        board = (shown.context or {}).get("age")
        if is_update and not silence and "still" not in (shown.context or {}):
            self._read_ahead(page, visit)
        if shown.trouble or page.is_of_silence:
            age_s = shown.age_s if shown.trouble else 0.0
            return shown._replace(trouble=pulsar.silence or shown.trouble, age_s=age_s)
        if pulsar.silence:
            return shown._replace(trouble=pulsar.silence, age_s=pulsar.age_s)
        if board and board.age_s > LATE_S:
            late = NotReady(
                "This server is slow to read the tasks.",
                "An operator sees in `fairlane doctor` whether it or Redis is overloaded.",
            )
            return shown._replace(trouble=late, age_s=board.age_s)
        return shown

    def _read_ahead(self, page: Page, visit: Visit) -> None:
        """Read a page soon, so that its next update need not wait for it."""
        if (renew := self._last.ahead(page, visit)) is None:
            return

        async def read() -> None:
            await asyncio.sleep(FRESH_S)
            await self._threads.run(visit.desks.principal.app, renew)

        self._ahead.add(task := asyncio.ensure_future(read()))
        task.add_done_callback(self._ahead.discard)

    async def _heard(self, visit: Visit, function: Callable[[Visit], T]) -> T:
        """Return what a function returns in a thread. Raises NotReady, Unreachable if a silent server is waited for."""
        waiting = asyncio.ensure_future(self._in_thread(visit, function))
        while not (await asyncio.wait([waiting], timeout=PATIENCE_S))[0]:
            if silence := self._door.book.silence or self._door.pulsar.silence:
                waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else looks
                raise silence
        return waiting.result()

    async def _send(self, page: Page, form: Form, request: web.Request) -> web.StreamResponse:
        """Show what a form would do; do it once that was confirmed."""
        fields = await self._form(request)
        visit = (await self._visit(page, request))._replace(form=fields)
        kept = {name: values.split("\n") for name, values in fields.items() if name not in _FRAME_FIELDS}
        asked: dict[str, Any] = {"fields": kept, "address": request.path, "method": "post"}
        try:
            plan = await self._heard(visit, form.plan)
            is_other = fields.get("seen", plan.seen) != plan.seen
            if fields.get("confirm") and _is_typed(plan, fields) and not is_other:
                if silence := self._door.pulsar.silence:
                    raise silence
                asked["is_begun"] = True
                done = await self._in_thread(visit, form.apply)
                shown: dict[str, Any] = {"done": done, "to": done.to or request.path.rpartition("/")[0] or "/"}
                return self._html("done", request, Shown(shown), page=page)
        except NoKey:
            raise
        except FairlaneError as error:
            return self._again(page, request, asked, error)
        asked |= {"plan": plan, "is_other": is_other, "mistyped": bool(fields.get("confirm"))}
        return self._html("plan", request, Shown(asked), page=page)

    def _again(self, page: Page, request: web.Request, asked: dict[str, Any], error: FairlaneError) -> web.Response:
        """Return a page that says why a form or filter was refused, with what was typed, to be sent again."""
        is_unknown = asked.get("is_begun", False) and isinstance(error, Unreachable)  # a receipt may have been lost
        context = Shown({**asked, "error": error, "is_unknown": is_unknown, "still": True})
        return self._html("again", request, context, problems.problem_of(error).kind.status, page=page)

    async def _sign_in_page(self, request: web.Request) -> web.StreamResponse:
        return self._html("sign_in", request, Shown({"to": _local(request.query.get("to", "/"))}))

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        fields = await self._form(request)
        principal = await principal_of(self._door, fields.get("key", "").strip())
        await self._threads.run(principal.app, partial(self._door.take_request, principal))
        cookie = await self._threads.run(principal.app, partial(self._door.sessions.start, principal))
        return self._signed_in(cookie, _local(fields.get("to", "/")))

    async def _link_page(self, request: web.Request) -> web.StreamResponse:
        return self._html("link", request, Shown({"address": request.path}))

    async def _spend_link(self, request: web.Request) -> web.StreamResponse:
        await self._form(request)
        secret = request.match_info["secret"]
        return self._signed_in(await self._threads.run(None, partial(self._door.sessions.spend, secret)), "/")

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        await self._form(request)
        await self._threads.run(None, partial(self._door.sessions.end, request.cookies.get(self._cookie, "")))
        response = _see("/sign-in")
        response.del_cookie(self._cookie, secure=self._secure, httponly=True, samesite="Strict")
        return response

    async def _visit(self, page: Page, request: web.Request) -> Visit:
        request[_PRINCIPAL] = principal = await self._principal(request)
        check_right(principal, page.action)
        if principal.app:
            await self._threads.run(principal.app, partial(self._door.take_request, principal))
        desks = self._door.desks(principal, request[problems.ID])
        return Visit(desks, request.match_info, _query(request))

    async def _principal(self, request: web.Request) -> Principal:
        if header := self._settings.user_header:
            names = request.headers.getall(header, [])
            if len(names) != 1:
                raise Forbidden(f"The proxy has sent {len(names)} headers {header}.", "It must name one user.")
            return self._door.book.user(names[0])
        cookie = request.cookies.get(self._cookie, "")
        return await self._threads.run(None, partial(self._door.sessions.principal, cookie))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        """Return a file, which browsers ask for again by its tag."""
        name = request.match_info["name"]
        if (body := self._files.get(name)) is None:
            raise web.HTTPNotFound
        tag, kind = sha256(body).hexdigest()[:16], guess_type(name)[0] or "text/plain"
        headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
        if tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        response = web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)
        response.enable_compression()
        return response

    async def _form(self, request: web.Request) -> dict[str, str]:
        """Read a form. Raises Forbidden if another site may have sent it."""
        if request.headers.get("Sec-Fetch-Site") != "same-origin":
            raise Forbidden(
                "The browser does not say that this form was sent by the console itself.",
                "Use a current browser, and open the console by https, or on this machine.",
            )
        with self._room.for_body() as body:
            await read_body(request, FORM_BYTES, self._room, body)
            if body.count(b"&") + body.count(b"%0A") + body.count(b"%0a") > MAX_FIELDS:
                raise InvalidInput(f"The form has more than {MAX_FIELDS:,} fields and lines.", "Send less at once.")
            pairs = parse_qsl(body.decode(errors="replace"), keep_blank_values=True)
        fields: dict[str, list[str]] = {}
        for name, value in pairs:
            fields.setdefault(name, []).append(value.replace("\r\n", "\n"))  # browsers send line ends so
        return {name: "\n".join(values) for name, values in fields.items()}

    async def _in_thread(self, visit: Visit, function: Callable[[Visit], T]) -> T:
        return await self._threads.run(visit.desks.principal.app, partial(function, visit))

    def _signed_in(self, cookie: str, to: str) -> web.StreamResponse:
        response = _see(to)
        response.set_cookie(
            self._cookie, cookie, secure=self._secure, httponly=True, samesite="Strict", max_age=COOKIE_S
        )
        return response

    def _html(
        self, name: str, request: web.Request, shown: Shown, status: int = 200, *, page: Page | None = None
    ) -> web.Response:
        principal = request.get(_PRINCIPAL)
        context: dict[str, Any] = {
            "principal": principal,
            "menu": [each for each in PAGES if each.in_menu and _may(principal, each.action)],
            "may": partial(_may, principal),
            "page": page,
            "part": "X-Part" in request.headers,
            "query": _query(request),
            "here": request.path,
            "estate_board": self._settings.estate_board,
            "signs_out": not self._settings.user_header,
            "sends_site": "Sec-Fetch-Site" in request.headers,
            "trouble": shown.trouble,
            "age_s": shown.age_s,
            "known": shown.context is not None,
            **(shown.context or {}),
        }
        if page is not None and shown.context is None:
            name = "unknown"
        kept = {"Cache-Control": "private, no-cache"} if name in ("plan", "again") else {}  # the way back leads there
        headers = {**HEADERS, **kept}
        texts = {} if shown.trouble or shown.texts is None or not context["part"] else shown.texts
        if (text := texts.get(name)) is None:
            text = texts[name] = render(name, context)
        response = web.Response(text=text, content_type="text/html", status=status, headers=headers)
        response.enable_compression()
        return response


def _query(request: web.Request) -> dict[str, str]:
    """Return the fields of the address that are not empty; of one that is there twice, the last."""
    return {name: value for name, value in request.query.items() if value}


def _see(address: str) -> web.Response:
    return web.Response(status=303, headers={**HEADERS, "Location": address})


def _is_typed(plan: Plan, fields: Mapping[str, str]) -> bool:
    """Return whether the number was typed that the plan has, or had when it was shown: tasks come and go meanwhile.

    Once it has grown by a tenth, the new one is asked for.
    """
    shown, typed = fields.get("shown", ""), fields.get("typed", "").replace(",", "").strip()
    is_near = shown.isdecimal() and len(shown) < 16 and plan.typed <= int(shown) * 1.1
    return not plan.typed or typed == str(plan.typed) or (typed == shown and is_near)


def _may(principal: Principal | None, name: str) -> bool:
    """Return whether who is signed in may do what an action of the table says: pages offer nothing else."""
    action = ACTIONS[name]
    return principal is not None and principal.may(action.scope) and (not principal.app or action.in_app)


def _local(address: str) -> str:
    """Return an address of this site; the first page for any other."""
    return address if _HERE.fullmatch(address) else "/"
