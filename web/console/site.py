"""The console's addresses: pages, their forms, signing in and out, and files."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from dispatcher.access.actions import ACTIONS
from dispatcher.access.principal import Principal
from dispatcher.model.errors import FairlaneError, Forbidden, InvalidInput, NoKey
from producers.desk.front_door import FrontDoor
from producers.desk.guard import check_right
from web import problems
from web.bodies import Room, read_body
from web.console.page import Form, Page, Visit
from web.console.pages import PAGES
from web.console.render import render
from web.console.shown import LastShown, Shown
from web.encoding import csv_of

FORM_BYTES = 1 << 20
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": CSP, "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY"}
STATIC = Path(__file__).parent / "static"
COOKIE_S = 30 * 86_400
"""The browser keeps the cookie for longer than any session lasts."""
T = TypeVar("T")
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Console:
    """The console of one process."""

    def __init__(self, door: FrontDoor, threads: Executor, *, secure: bool) -> None:
        """secure: whether browsers reach it by TLS, at this server or at a proxy."""
        self._door = door
        self._threads = threads
        self._room = Room()
        self._last = LastShown()
        self._secure = secure
        self._cookie = "__Host-fairlane" if secure else "fairlane"

    def add_to(self, app: web.Application) -> None:
        """Add all addresses."""
        router = app.router
        for page in PAGES:
            router.add_get(page.path, self._answered(partial(self._show, page)))
            for name, form in page.forms.items():
                router.add_post(f"{page.path.rstrip('/')}/{name}", self._answered(partial(self._send, page, form)))
        router.add_get("/sign-in", self._answered(self._sign_in_page))
        router.add_post("/sign-in", self._answered(self._sign_in))
        router.add_get("/sign-in/{secret}", self._answered(self._link_page))
        router.add_post("/sign-in/{secret}", self._answered(self._spend_link))
        router.add_post("/sign-out", self._answered(self._sign_out))
        router.add_static("/static/", STATIC)

    # ------------------------------------------------------------------------------ what browsers ask

    async def _show(self, page: Page, request: web.Request) -> web.StreamResponse:
        visit = await self._visit(page, request)
        again = "X-Part" in request.headers
        try:
            shown = await self._in_thread(partial(self._last.read, page, visit, again=again))
        except InvalidInput as error:
            given: dict[str, Any] = {name: [value] for name, value in visit.query.items()}
            asked = {"fields": given, "address": request.path, "method": "get"}
            return self._again(page, request, visit.desks.principal, asked, error)
        if request.query.get("format") == "csv" and shown.context is not None:
            body = csv_of(shown.context["rows"])
            named = {"Content-Disposition": f'attachment; filename="{page.name}.csv"'}
            return web.Response(body=body, content_type="text/csv", headers=named)
        return self._html(page.name, request, visit.desks.principal, shown, page=page)

    async def _send(self, page: Page, form: Form, request: web.Request) -> web.StreamResponse:
        """Show what a form would do; do it once that was confirmed."""
        fields = await self._form(request)
        visit = (await self._visit(page, request))._replace(form=fields)
        principal = visit.desks.principal
        kept = {name: values.split("\n") for name, values in fields.items() if name not in ("confirm", "typed")}
        asked: dict[str, Any] = {"fields": kept, "address": request.path, "method": "post"}
        try:
            plan = await self._in_thread(partial(form.plan, visit))
            typed = fields.get("typed", "").replace(",", "").strip()
            if fields.get("confirm") and (not plan.typed or typed == str(plan.typed)):
                done = await self._in_thread(partial(form.apply, visit))
                said: dict[str, Any] = {"done": done, "to": done.to or request.path.rpartition("/")[0] or "/"}
                return self._html("done", request, principal, Shown(said), page=page)
        except NoKey:
            raise
        except FairlaneError as error:
            return self._again(page, request, principal, asked, error)
        asked |= {"plan": plan, "mistyped": bool(fields.get("confirm"))}
        return self._html("plan", request, principal, Shown(asked), page=page)

    def _again(
        self, page: Page, request: web.Request, principal: Principal, asked: dict[str, Any], error: FairlaneError
    ) -> web.Response:
        """Return a page that says why a form or filter was refused, with what was typed, to be sent again."""
        context = Shown({**asked, "error": error})
        return self._html("again", request, principal, context, problems.problem_of(error).kind.status, page)

    async def _sign_in_page(self, request: web.Request) -> web.StreamResponse:
        return self._html("sign_in", request, None, Shown({"to": _local(request.query.get("to", "/"))}))

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        fields = await self._form(request)
        principal = self._door.principal(fields.get("key", "").strip())
        cookie = await self._in_thread(partial(self._door.sessions.start, principal))
        return self._signed_in(cookie, _local(fields.get("to", "/")))

    async def _link_page(self, request: web.Request) -> web.StreamResponse:
        return self._html("link", request, None, Shown({"address": request.path}))

    async def _spend_link(self, request: web.Request) -> web.StreamResponse:
        await self._form(request)
        secret = request.match_info["secret"]
        return self._signed_in(await self._in_thread(partial(self._door.sessions.spend, secret)), "/")

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        await self._form(request)
        await self._in_thread(partial(self._door.sessions.end, request.cookies.get(self._cookie, "")))
        response = _see("/sign-in")
        response.del_cookie(self._cookie, secure=self._secure, httponly=True, samesite="Strict")
        return response

    # ------------------------------------------------------------------------------ steps of them

    async def _visit(self, page: Page, request: web.Request) -> Visit:
        cookie = request.cookies.get(self._cookie, "")
        principal = await self._in_thread(partial(self._door.sessions.principal, cookie))
        check_right(principal, page.action)
        desks = self._door.desks(principal, request[problems.ID])
        return Visit(desks, request.match_info, {name: value for name, value in request.query.items() if value})

    async def _form(self, request: web.Request) -> dict[str, str]:
        """Read a form. Raises Forbidden if another site may have sent it."""
        if request.headers.get("Sec-Fetch-Site") != "same-origin":
            raise Forbidden(
                "The browser does not say that this form was sent by the console itself.",
                "Use a current browser, and open the console by https, or on this machine.",
            )
        with self._room.for_body() as body:
            await read_body(request, FORM_BYTES, self._room, body)
            pairs = parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=20_000)
        fields: dict[str, str] = {}
        for name, sent in pairs:
            value = sent.replace("\r\n", "\n")  # browsers send line ends so
            fields[name] = f"{fields[name]}\n{value}" if name in fields else value
        return fields

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def _signed_in(self, cookie: str, to: str) -> web.StreamResponse:
        response = _see(to)
        response.set_cookie(
            self._cookie, cookie, secure=self._secure, httponly=True, samesite="Strict", max_age=COOKIE_S
        )
        return response

    def _answered(self, handle: Handle) -> Handle:
        """Return a handler whose errors are pages."""

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                return await handle(request)
            except NoKey as error:
                if request.method == "GET" and "X-Part" not in request.headers and not request.cookies:
                    return _see(f"/sign-in?{urlencode({'to': request.path_qs})}")
                return self._html("sign_in", request, None, Shown({"to": "/"}, trouble=error), status=401)
            except FairlaneError as error:
                status = problems.problem_of(error).kind.status
                return self._html("problem", request, None, Shown({}, trouble=error), status)

        return answer

    def _html(
        self, name: str, request: web.Request, principal: Principal | None, shown: Shown, status: int = 200,
        page: Page | None = None,
    ) -> web.Response:  # fmt: skip
        context: dict[str, Any] = {
            "principal": principal,
            "menu": [each for each in PAGES if each.in_menu and _may(principal, each.action)],
            "may": partial(_may, principal),
            "page": page,
            "part": "X-Part" in request.headers,
            "query": request.query,
            "here": request.path,
            "sends_site": "Sec-Fetch-Site" in request.headers,
            "trouble": shown.trouble,
            "age_s": shown.age_s,
            "known": shown.context is not None,
            **(shown.context or {}),
        }
        if page is not None and shown.context is None:
            name = "unknown"
        response = web.Response(text=render(name, context), content_type="text/html", status=status, headers=HEADERS)
        response.enable_compression()
        return response


def _see(address: str) -> web.Response:
    return web.Response(status=303, headers={**HEADERS, "Location": address})


def _may(principal: Principal | None, name: str) -> bool:
    """Return whether who is signed in may do what an action of the table says: pages offer nothing else."""
    action = ACTIONS[name]
    return principal is not None and principal.may(action.scope) and (not principal.app or action.in_app)


def _local(address: str) -> str:
    """Return an address of this site; the first page for any other."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"
