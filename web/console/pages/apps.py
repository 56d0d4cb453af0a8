"""Apps: policies, keys and their last use."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.principal import Scope, check_rights, scopes_of
from dispatcher.model.errors import InvalidInput, NotFound
from dispatcher.model.tier import TIERS
from dispatcher.model.values import counted, duration
from fairlane.figures.usage import app_usage, apps
from producers.control.access_control import KeyState
from web.console.given import need, number, seconds, texts
from web.console.page import Done, Form, Page, Plan, Visit


def read(visit: Visit) -> dict[str, Any]:
    desk, chosen = visit.desks.service, visit.query.get("app", "")
    client = desk.client("app.show")
    settings, tasks, policies = client.globals(), desk.live("app.show"), client.access.policies()
    keys = client.access.keys(chosen or None)
    used = {usage.app: usage for usage in apps(settings, tasks) if usage.app != "*"}
    live, last = Counter(key.app for key in keys if key.state == "live"), dict[str, int]()
    for key in keys:
        last[key.app] = max(last.get(key.app, 0), key.used_ms)
    names = {chosen} if chosen else {*used, *policies, *last} - {""}
    shown = [
        {
            **{field: getattr(used.get(name) or app_usage(name, settings, []), field) for field in _USED},
            "keys": live[name],
            "used_ms": last.get(name, 0),
            "policy": msgspec.structs.asdict(policies.get(name, AppPolicy())),
        }
        for name in sorted(names)
    ]
    listed = [key._asdict() for key in keys]
    rows = listed if visit.query.get("table") == "keys" else shown
    return {"apps": shown, "keys": listed, "rows": rows, "chosen": chosen, "tiers": _TIERS, "scopes": _SCOPES}


# ------------------------------------------------------------------------------ policies


def _policy(form: Mapping[str, str], before: AppPolicy) -> dict[str, Any]:
    """Return the bounds that a form changes. Raises InvalidInput."""
    given: dict[str, Any] = texts(form, "tier")
    if "channels" in form:
        given["channels"] = [name for name in form["channels"].replace(",", " ").split() if name != "none"]
    for name, text in texts(form, "weight", "targets", "requests_s").items():
        value = number(text, name)
        given[name] = int(value) if name != "weight" and value == int(value) else value
    if "ttl" in (ttl := texts(form, "ttl")):
        given["ttl_s"] = seconds(ttl["ttl"], "ttl")
    known = msgspec.to_builtins(msgspec.structs.asdict(before))
    return {name: value for name, value in given.items() if value != known[name]}


def _plan_policy(visit: Visit) -> Plan:
    desk, app = visit.desks.service, need(visit.form, "app")
    access = desk.client("app.set").access
    before = access.policy(app)
    if not (changed := _policy(visit.form, before)):
        raise InvalidInput(f"The policy of app {app} is like this already.", "Nothing was changed.")
    after = AppPolicy.of(msgspec.to_builtins(before) | changed)
    old, new = (_in_words(policy) for policy in (before, after))
    lines = [f"{name}: {old[name]} → {new[name]}" for name in changed]
    beyond = sum(_is_beyond(after, task) for task in desk.live("app.set") if task.app == app)
    if beyond:
        lines.append(f"{counted(beyond, 'live task')} would be beyond it: sent all the same, but new ones are refused.")
    return Plan(f"Change the policy of app {app}", [*lines, _last_use(access.keys(app), f"Keys of {app}")])


def _is_beyond(policy: AppPolicy, task: Any) -> bool:
    try:
        policy.check(task.app, channel=task.channel, tier=task.tier, weight=task.weight, targets=task.targets.total)
    except InvalidInput:
        return True
    return False


def _set_policy(visit: Visit) -> Done:
    access, app = visit.desks.service.client("app.set").access, need(visit.form, "app")
    access.set_policy(app, _policy(visit.form, access.policy(app)))
    return Done(f"The policy of app {app} is changed. It holds within a second.")


def _in_words(policy: AppPolicy) -> dict[str, str]:
    bounds = msgspec.structs.asdict(policy)
    numbers = {name: f"{bound:,.15g}" for name, bound in bounds.items() if isinstance(bound, int | float)}
    return {**numbers, "tier": str(policy.tier), "channels": ", ".join(policy.channels) or "none"}


# ------------------------------------------------------------------------------ keys


def _key(form: Mapping[str, str]) -> tuple[str | None, list[str], float | None]:
    """Return app, scopes and seconds of life of a new key. Raises InvalidInput."""
    app, scopes, given = form.get("app", "").strip(), form.get("scopes", "").split(), texts(form, "ends")
    check_rights(app, scopes_of(scopes))
    return app or None, scopes, seconds(given["ends"], "ends") if given else None


def _plan_key(visit: Visit) -> Plan:
    app, scopes, ends_s = _key(visit.form)
    lines = [
        f"Whoever has it may {', '.join(scopes)} {f'for app {app}' if app else 'for every app'}.",
        "It is good until it is revoked." if ends_s is None else f"It ends in {duration(ends_s)}.",
        "Its secret is shown once, on the next page.",
    ]
    if Scope.OPERATOR in scopes:
        lines.insert(1, "An operator may do everything: settings, keys and policies too.")
    return Plan(f"Create a key for {f'app {app}' if app else 'all apps'}", lines)


def _create(visit: Visit) -> Done:
    new = visit.desks.service.client("keys.create").access.create(*_key(visit.form))
    return Done(f"Key {new.id} is created. Store it now.", secret=new.token)


def _plan_revoke(visit: Visit) -> Plan:
    id_ = need(visit.form, "id")
    known = [key for key in visit.desks.service.client("keys.revoke").access.keys() if key.id == id_]
    if not known:
        raise NotFound(f"There is no key {id_}.", "Look at the list of keys again.")
    if known[0].state == "revoked":
        raise InvalidInput(f"Key {id_} is revoked already.", "Nothing was changed.")
    whose = f"It is of {f'app {known[0].app}' if known[0].app else 'all apps'}, for {', '.join(known[0].scopes)}."
    stops = "Who uses it is refused within a second, and sessions that began with it end. This cannot be taken back."
    return Plan(f"Revoke key {id_}", [whose, _last_use(known, "It"), stops])


def _revoke(visit: Visit) -> Done:
    visit.desks.service.client("keys.revoke").access.revoke(id_ := need(visit.form, "id"))
    return Done(f"Key {id_} is revoked.")


def _last_use(keys: Sequence[KeyState], what: str) -> str:
    used_ms = max((key.used_ms for key in keys), default=0)
    were = "was" if what == "It" else "were"
    return f"{what} {were} {f'last used {duration(time.time() - used_ms / 1000)} ago' if used_ms else 'never used'}."


_USED = ("app", "tasks", "queued", "rate", "task_limit", "target_limit")
_TIERS, _SCOPES = list(map(str, TIERS)), list(map(str, Scope))
PAGE = Page(
    name="apps", path="/apps", title="Apps", action="keys.list", read=read,
    forms={
        "policy": Form(plan=_plan_policy, apply=_set_policy),
        "key": Form(plan=_plan_key, apply=_create),
        "revoke": Form(plan=_plan_revoke, apply=_revoke),
    },
)  # fmt: skip
