"""The paths below /_fake/: rules, counts and what was accepted, while a fake runs."""

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import msgspec

from dispatcher.model.errors import DECODING_ERRORS, FairlaneError
from lab.fake.messages import Reply, Request, json_reply
from lab.fake.rules import read_rules
from lab.fake.site import ADMIN_PREFIX as PREFIX
from lab.fake.site import FakeSite


def side_reply(site: FakeSite, request: Request) -> Reply:
    """Answer a request that is no push."""
    if request.path.startswith(PREFIX):
        return _admin_reply(site, request)
    return site.provider.side_reply(request, site.rules)


def _admin_reply(site: FakeSite, request: Request) -> Reply:
    act = _ACTS.get((request.method, urlsplit(request.path).path.removeprefix(PREFIX)))
    if act is None:
        known = sorted(f"{method} {PREFIX}{name}" for method, name in _ACTS)
        return json_reply(404, {"error": "There is no such path.", "paths": known})
    try:
        return act(site, request)
    except FairlaneError as error:
        return json_reply(400, {"error": f"{error.cause} {error.next_step}".strip()})
    except DECODING_ERRORS as error:
        return json_reply(400, {"error": f"The body is wrong: {error}."})


def _rules(site: FakeSite, _: Request) -> Reply:
    return json_reply(200, site.rules)


def _set_rules(site: FakeSite, request: Request) -> Reply:
    site.set_rules(read_rules(msgspec.json.decode(request.body), site.provider.table))
    return json_reply(200, site.rules)


def _counts(site: FakeSite, _: Request) -> Reply:
    return json_reply(200, site.accounts.summary())


def _accepted(site: FakeSite, request: Request) -> Reply:
    """All targets with their times, or one with its message ids."""
    [target] = parse_qs(urlsplit(request.path).query).get("target", [""])[-1:]
    accounts = site.accounts
    if not target:
        return json_reply(200, accounts.accepted)
    ids = {name: count for (owner, name), count in accounts.messages.items() if owner == target}
    return json_reply(200, {"target": target, "accepted": accounts.accepted[target], "messages": ids})


def _payloads(site: FakeSite, request: Request) -> Reply:
    """The last pushes, the newest first: all that are kept, or those of a target."""
    [target] = parse_qs(urlsplit(request.path).query).get("target", [""])[-1:]
    return json_reply(
        200, [payload.shown() for payload in reversed(site.payloads) if not target or payload.is_for(target)]
    )


def _judge(site: FakeSite, request: Request) -> Reply:
    return json_reply(200, site.accounts.judge(msgspec.json.decode(request.body, type=list[str])))


def _forget(site: FakeSite, _: Request) -> Reply:
    site.forget()
    return json_reply(200, site.accounts.summary())


def _expire(site: FakeSite, _: Request) -> Reply:
    return json_reply(200, {"expired": site.provider.expire_tokens()})


_ACTS: dict[tuple[str, str], Callable[[FakeSite, Request], Reply]] = {
    ("GET", "rules"): _rules,
    ("PUT", "rules"): _set_rules,
    ("GET", "counts"): _counts,
    ("DELETE", "counts"): _forget,
    ("GET", "accepted"): _accepted,
    ("POST", "accepted"): _judge,
    ("GET", "payloads"): _payloads,
    ("DELETE", "tokens"): _expire,
}
