"""Reads the data files of a frozen version, and puts a frozen view into a Redis."""

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

from backends.redis.view import RedisView

HERE = Path(__file__).parent
VERSIONS = ("0.1.0",)


class Frozen(NamedTuple):
    """A stored record. says: its fields, as a plain msgpack decoder reads them."""

    name: str
    body: bytes
    says: Any = None


def frozen(version: str, kind: str) -> list[Frozen]:
    """The records in `VERSION/KIND.json`."""
    return [
        Frozen(one["name"], base64.b64decode(one["body"]), restored(one.get("says"))) for one in _read(version, kind)
    ]


def put_view(version: str, view: RedisView) -> None:
    """The view as that version left it in Redis, under the view's own prefix. Keys that expired within minutes then
    do so again."""
    client = view.client
    for one in _read(version, "view"):
        key, value = view.keys.prefix + one["key"], restored(one["value"])
        match one["kind"]:
            case "string":
                client.set(key, value)
            case "hash":
                client.hset(key, mapping=dict(value))
            case "set":
                client.sadd(key, *value)
            case "zset":
                client.zadd(key, dict(value))
            case "stream":
                for fields in value:
                    client.xadd(key, dict(fields))
        if one["kept_ms"] > 0:
            client.pexpire(key, one["kept_ms"])


def restored(value: Any) -> Any:
    """Undo make_frozen.plain."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"bytes"}:
            return base64.b64decode(value["bytes"])
        return {name: restored(item) for name, item in value.items()}
    return value


def _read(version: str, kind: str) -> list[Any]:
    forms: list[Any] = json.loads((HERE / version / f"{kind}.json").read_text(encoding="utf-8"))
    return forms
