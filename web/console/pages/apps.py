"""Apps: policies, keys and their last use."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.principal import Scope, check_rights, scopes_of
from dispatcher.model.errors import InvalidInput, NotFound
from dispatcher.model.service_settings import POLICY, Setting
from dispatcher.model.tier import TIERS
from dispatcher.model.values import counted, duration, text_of
from fairlane.figures.usage import app_usage, apps
from producers.control.access_control import KeyState
from producers.desk.board.groups import announced
from web.console.given import body, need, seconds, texts
from web.console.page import Done, Form, Page, Plan, Visit
from web.routes.service import PolicyChanges


def read(visit: Visit) -> dict[str, Any]:
    desk, chosen = visit.desks.service, visit.query.get("app", "")
    client = desk.client("app.show")
    settings, groups, policies = client.globals(), visit.desks.board.groups(), client.access.policies()
    keys = client.access.keys(chosen or None)
    used = {usage.app: usage for usage in apps(settings, groups) if usage.app != "*"}
    live, last = Counter(key.app for key in keys if key.state == "live"), dict[str, int]()
    for key in keys:
        last[key.app] = max(last.get(key.app, 0), key.used_ms)
    names = {chosen} if chosen else {*used, *policies, *last} - {""}
    shown = [
        {
            **{field: getattr(used.get(name) or app_usage(name, settings, [], {}), field) for field in _USED},
            "keys": live[name],
            "used_ms": last.get(name, 0),
            "is_default": name not in policies,
            "policy": msgspec.structs.asdict(policies.get(name, AppPolicy())),
        }
        for name in sorted(names)
    ]
    listed = [key._asdict() for key in keys]
    return {
        "apps": shown,
        "keys": listed,
        "rows": {"apps": shown, "keys": listed},
        "announced": announced(groups),
        "chosen": chosen,
        "tiers": _TIERS,
        "scopes": _SCOPES,
        "age": visit.desks.board.age(),
    }


def _bounds(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the bounds of a policy that a form has. Raises InvalidInput."""
    channels = [name for name in form.get("channels", "").replace(",", " ").split() if name != "none"]
    given = body(
        PolicyChanges, form, channels=channels if texts(form, "channels") else None, ttl_s=seconds(form, "ttl_s")
    )
    return dict(msgspec.to_builtins(given))


def _plan_policy(visit: Visit) -> Plan:
    access, app = visit.desks.service.client("app.set").access, need(visit.form, "app")
    before = access.policy(app)
    after = AppPolicy.of(msgspec.to_builtins(before) | _bounds(visit.form))
    old, new = map(msgspec.structs.asdict, (before, after))
    changes = [f"{name}: {text_of(old[name])} → {text_of(new[name])}" for name in old if old[name] != new[name]]
    if not changes:
        raise InvalidInput("The policy is like this already.", "Nothing was changed.")
    lines = ["What is beyond it is refused within a second; live tasks go on.", _last_use(access.keys(app))]
    return Plan(f"Change the policy of app {app}", changes, lines)


def _set_policy(visit: Visit) -> Done:
    app = need(visit.form, "app")
    visit.desks.service.client("app.set").access.set_policy(app, _bounds(visit.form))
    return Done(f"The policy of app {app} is changed.", f"/apps?app={quote(app)}")


def _key(form: Mapping[str, str]) -> tuple[str | None, list[str], float | None]:
    """Return app, scopes and seconds of life of a new key. Raises InvalidInput."""
    app, scopes = form.get("app", "").strip(), form.get("scopes", "").split()
    check_rights(app, scopes_of(scopes))
    if app:
        Setting.of(POLICY, AppPolicy(), app)  # checks the name
    return app or None, scopes, seconds(form, "ends")


def _plan_key(visit: Visit) -> Plan:
    app, scopes, ends_s = _key(visit.form)
    whose = f"for app {app}" if app else "for all apps"
    may = "do everything, settings, keys and policies too" if Scope.OPERATOR in scopes else ", ".join(scopes)
    ends = "is good until it is revoked" if ends_s is None else f"ends in {duration(ends_s)}"
    lines = [f"A client that has it may {may} {whose}.", f"It {ends}.", "Its secret is shown once, on the next page."]
    return Plan(f"Create a key {whose}", lines=lines)


def _create(visit: Visit) -> Done:
    new = visit.desks.service.client("keys.create").access.create(*_key(visit.form))
    return Done(f"Key {new.id} is created. Store it now.", secret=new.token)


def _plan_revoke(visit: Visit) -> Plan:
    access, id_ = visit.desks.service.client("keys.revoke").access, need(visit.form, "id")
    key = next((key for key in access.keys(None) if key.id == id_), None)
    if key is None or key.state == "revoked":
        raise NotFound(f"There is no key {id_} that is not revoked.", "Look at the list of keys again.")
    whose = f"It is for {f'app {key.app}' if key.app else 'all apps'}: {', '.join(key.scopes)}."
    stops = "It is refused within a second, and sessions that began with it end. This cannot be taken back."
    return Plan(f"Revoke key {id_}", lines=[whose, _last_use([key]), stops])


def _revoke(visit: Visit) -> Done:
    visit.desks.service.client("keys.revoke").access.revoke(id_ := need(visit.form, "id"))
    return Done(f"Key {id_} is revoked.")


def _last_use(keys: Sequence[KeyState]) -> str:
    used_ms = max((key.used_ms for key in keys), default=0)
    whose = "It" if len(keys) == 1 else f"The last of its {counted(len(keys), 'key')}"
    if not used_ms:
        return "No use of its keys is known."
    return f"{whose} was used {duration(time.time() - used_ms / 1000)} ago."


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
