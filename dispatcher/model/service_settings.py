"""The settings of the whole service. A Setting checks, encodes, parses and applies itself.

A record of the control topic has it as a field and a text; the last text of a field in the topic applies.
`backends/redis/lua/registry/apply_global.lua` applies it to the view in Redis.
"""

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Self

import msgspec

from dispatcher.access.principal import NOBODY, Caller
from dispatcher.model.errors import InvalidInput, Malformed
from dispatcher.model.field_errors import NAME_RULE
from dispatcher.model.flow_pause import FLOW_PAUSED, FlowPause, flow_parts
from dispatcher.model.pools import EVERY_APP, NO_CAP, CapUnit, Limits, Pool, is_count
from dispatcher.model.task import MAX_TARGETS, is_reserved
from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, MILLI, SHARED_BY, TIERS, in_milli
from dispatcher.model.view import Globals
from dispatcher.wire.checks import field_checks as check
from dispatcher.wire.control import FORMAT, GlobalChange
from dispatcher.wire.topics import NAME_PATTERN

KEY, POLICY, USER = "key", "policy", "user"
ACCESS = (KEY, POLICY, USER)
"""The kinds of settings that the door reads. They are stored apart, since no worker needs them."""
_NAME = re.compile(NAME_PATTERN)
_USER_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
_USER_RULE = "it must be 1 to 100 of A-Z a-z 0-9 . _ @ + - and begin with a letter or digit"
_NAMES_OF_POOLS = {"channel": ("channel",), "app": ("app",), "app_channel": ("app", "channel"), "quota": ("group",)}
"""Kinds of names in the name of a pool, by its first word."""


class Setting(msgspec.Struct, frozen=True):
    """A new value of one setting of the service."""

    kind: str
    """As in SETTINGS."""
    value: Any
    """A Cap, bool, number, text, or weights by tier."""
    name: str = ""
    """The channel, app or pool that is set; empty for settings without a name."""

    @classmethod
    def of(cls, kind: str, given: object, name: str = "") -> Self:
        """Return a setting with a value and a name given by a user. Raises InvalidInput."""
        rules = SETTINGS[kind]
        for part, text in rules.parts(name).items():
            pattern, rule = _rule_of(part)
            if not pattern.fullmatch(text) or is_reserved(text):
                raise InvalidInput(f"{part}: is {text!r}; {rule}.")
        return cls(kind, rules.checked(given, name), name)

    @classmethod
    def parse(cls, field: str, text: str) -> Self:
        """Parse a stored field. Raises Malformed."""
        kind = next((kind for kind in SETTINGS if f"{field}:".startswith(f"{kind}:")), None)
        stored = kind and cls(kind, text, field[len(kind) + 1 :].replace(":", "/", 1))
        if not stored or stored.field != field:
            raise Malformed(f"this version knows no setting {repr(field)[:80]}")
        rules = SETTINGS[stored.kind]
        for part, name in rules.parts(stored.name).items():
            check.need(_rule_of(part)[0].fullmatch(name), part, name)
        return msgspec.structs.replace(stored, value=rules.parsed(text))

    @property
    def field(self) -> str:
        """The field in which it is stored: the cap of `app_channel/shop/http` is `cap:app_channel:shop/http`."""
        return f"{self.kind}:{self.name.replace('/', ':', 1)}" if SETTINGS[self.kind].is_named else self.kind

    @property
    def text(self) -> str:
        """The value as it is stored."""
        return SETTINGS[self.kind].text(self.value)

    @property
    def app(self) -> str:
        """The app that it is about; empty if it is about no one app."""
        if self.kind in (KEY, USER):
            return str(self.value.app)
        return SETTINGS[self.kind].parts(self.name).get("app", "")

    def record(self, at_ms: int, caller: Caller = NOBODY) -> GlobalChange:
        """Return the record for the control topic."""
        return GlobalChange(FORMAT, self.field, self.text, at_ms, caller.by, caller.request)


def globals_after(before: Globals, changes: Iterable[Setting]) -> Globals:
    """Return the settings of the whole service after changes."""
    new = {name: copy.copy(value) for name, value in msgspec.structs.asdict(before).items()}
    for change in changes:
        SETTINGS[change.kind].apply(new, change.name, change.value)
    return Globals(**new)


def globals_of(fields: Mapping[str, str], now_ms: int = 0) -> Globals:
    """Parse stored settings. Missing fields, and those that this version cannot read, take their defaults.

    now_ms: Redis' time; pauses of a flow (an app on a channel) that have expired are left out. 0: none has expired.
    """
    unset = Globals(capacity=0, tier_weights=_shares(DEFAULT_TIER_WEIGHTS))
    stored = globals_after(unset, settings_of(fields))
    paused = {flow: entry for flow, entry in stored.flow_pauses.items() if entry.is_open(now_ms)}
    return msgspec.structs.replace(stored, flow_pauses=paused)


def settings_of(fields: Mapping[str, str]) -> Iterator[Setting]:
    """Yield the settings in stored fields, without those that this version cannot read."""
    for field, text in sorted(fields.items()):
        if setting := _parsed(field, text):
            yield setting


@lru_cache(maxsize=10_000)
def _parsed(field: str, text: str) -> Setting | None:
    """Return a stored setting; None if it cannot be read. All of 1,000 apps take 50 ms; pages read them often."""
    with suppress(Malformed):
        return Setting.parse(field, text)
    return None


def _rule_of(part: str) -> tuple[re.Pattern[str], str]:
    """Return what a kind of name must look like."""
    return (_USER_NAME, _USER_RULE) if part == USER else (_NAME, NAME_RULE)


_Apply = Callable[[dict[str, Any], str, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    apply: _Apply
    """Change the fields of Globals; takes name and value."""
    parsed: Callable[[str], Any]
    """The value in a stored text. Raises Malformed."""
    checked: Callable[[Any, str], Any]
    """The value that a user gave; takes the name too. Raises InvalidInput."""
    text: Callable[[Any], str] = str
    """From a value to its stored text."""
    parts: Callable[[str], dict[str, str]] = lambda _: {}
    """The names of channels and apps in a name, by what they are. Raises Malformed."""
    is_named: bool = True


def _of_flow(name: str) -> dict[str, str]:
    channel, app = flow_parts(name)
    return {"channel": channel, "app": app}


def _of_pool(pool: str) -> dict[str, str]:
    kind, _, names = pool.partition("/")
    check.need(kind in _NAMES_OF_POOLS, "pool", pool)
    parts = _NAMES_OF_POOLS[kind]
    return dict(zip_longest(parts, names.split("/", len(parts) - 1), fillvalue=""))


def _given_limit(number: Any, _: str) -> int:
    if not is_count(number, MAX_TARGETS):
        raise InvalidInput(f"limit: is {number!r}; it must be a whole number, 0 (for none) to {MAX_TARGETS:,}.")
    return int(number)


def _stored_weights(text: str) -> dict[str, int]:
    weights = text[:64].split(":")
    check.need(len(weights) == len(TIERS), "weights of tiers", text)
    return {str(tier): check.weight(weight) for tier, weight in zip(TIERS, weights, strict=True)}


def _shares(milli: Mapping[Any, int]) -> dict[str, float]:
    return {str(name): weight / MILLI for name, weight in milli.items()}


def _stored_group(text: str) -> str:
    check.need(not text or _NAME.fullmatch(text), "quota group", text)
    return text


def _given_group(group: Any, _: str) -> str:
    if group and not _NAME.fullmatch(str(group)):
        raise InvalidInput(f"group: is {group!r}; {NAME_RULE}.")
    return str(group)


def _put(values: dict[str, Any], name: str, value: object, *, unset: object) -> None:
    """Set a value by name; an unset one is left out."""
    if value == unset:
        values.pop(name, None)
    else:
        values[name] = value


def _pause(new: dict[str, Any], channel: str, paused: Any) -> None:
    new["paused_channels"] = new["paused_channels"] - {channel} | ({channel} if paused else set())


def _pause_flow(new: dict[str, Any], flow: str, entry: FlowPause) -> None:
    if entry.kind.stops:
        new["flow_pauses"][flow] = entry
    else:
        new["flow_pauses"].pop(flow, None)


def _choice(name: str, known: Sequence[str], apply: _Apply, **rules: Any) -> _Kind:
    """Return the rules of a setting with one of the known texts."""

    def parsed(text: str) -> str:
        check.need(text in known, name, text)
        return text

    def checked(given: Any, _: str) -> str:
        if given not in known:
            raise InvalidInput(f"{name}: is {given!r}; it must be {' or '.join(known)}.")
        return str(given)

    return _Kind(apply=apply, parsed=parsed, checked=checked, **rules)


def _limit(part: str) -> _Kind:
    def apply(new: dict[str, Any], app: str, number: Any) -> None:
        limits = new["limits"].get(app, Limits())._replace(**{part: number})
        _put(new["limits"], app, limits, unset=Limits())

    return _Kind(
        apply=apply,
        parsed=lambda text: check.digits(text, "limit", MAX_TARGETS),
        checked=_given_limit,
        parts=lambda app: {} if app == EVERY_APP else {"app": app},
    )


def _key(text: str) -> Any:
    from dispatcher.access.keys import AccessKey  # a worker that meets no key does without

    return AccessKey.parse(text)


def _policy(text: str) -> Any:
    from dispatcher.access.app_policy import AppPolicy

    return AppPolicy.parse(text)


def _user(text: str) -> Any:
    from dispatcher.access.users import User

    return User.parse(text)


def _access(parsed: Callable[[str], Any], named: str) -> _Kind:
    """Return the rules of a setting that changes nothing in Globals."""
    return _Kind(
        apply=lambda *_: None,
        parsed=parsed,
        checked=lambda given, _: given,
        text=lambda given: given.text,
        parts=lambda name: {named: name},
    )


SETTINGS: dict[str, _Kind] = {
    "capacity": _Kind(
        apply=lambda new, _, cap: new.update(capacity=cap.rate, burst=cap.burst),
        parsed=lambda text: check.cap(text, "capacity"),
        checked=lambda cap, _: cap.checked("capacity"),
        text=lambda cap: cap.text,
        is_named=False,
    ),
    "tiers": _Kind(  # in thousandths, high:medium:low
        apply=lambda new, _, milli: new.update(tier_weights=_shares(milli)),
        parsed=_stored_weights,
        checked=lambda weights, _: {str(tier): in_milli(tier, weights[tier]) for tier in TIERS},
        text=lambda milli: ":".join(map(str, milli.values())),
        is_named=False,
    ),
    "sharing": _choice("sharing", SHARED_BY, lambda new, _, shared_by: new.update(sharing=shared_by), is_named=False),
    "cap": _Kind(
        apply=lambda new, pool, cap: _put(new["caps"], pool, cap, unset=NO_CAP),
        parsed=lambda text: check.cap(text, "cap"),
        checked=lambda cap, pool: cap.checked(f"cap of {Pool.parse(pool)}"),
        text=lambda cap: cap.text,
        parts=_of_pool,
    ),
    "channel_paused": _Kind(
        apply=_pause,
        parsed=lambda text: check.switch(text, "pause"),
        checked=lambda paused, _: bool(paused),
        text=lambda paused: str(int(paused)),
        parts=lambda channel: {"channel": channel},
    ),
    "quota": _Kind(  # the quota group of an app on a channel
        apply=lambda new, flow, group: _put(new["quotas"], flow, group, unset=""),
        parsed=_stored_group,
        checked=_given_group,
        parts=_of_flow,
    ),
    "quota_unit": _choice(  # what the cap of a quota group counts
        "unit",
        tuple(map(str, CapUnit)),
        lambda new, group, unit: _put(new["quota_units"], group, unit, unset=str(CapUnit.TARGET)),
        parts=lambda group: {"group": group},
    ),
    FLOW_PAUSED: _Kind(
        apply=_pause_flow,
        parsed=FlowPause.parse,
        checked=lambda entry, _: entry.checked(),
        text=lambda entry: entry.text,
        parts=_of_flow,
    ),
    "app_weight": _Kind(  # in thousandths
        apply=lambda new, app, milli: _put(new["app_weights"], app, milli / MILLI, unset=1.0),
        parsed=check.weight,
        checked=lambda weight, _: in_milli("weight", weight),
        parts=lambda app: {"app": app},
    ),
    "limit:tasks": _limit("tasks"),
    "limit:targets": _limit("targets"),
    KEY: _access(_key, "id"),
    POLICY: _access(_policy, "app"),
    USER: _access(_user, USER),
}
"""The kinds of settings by their names on the wire."""
