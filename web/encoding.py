"""Encode answers: as JSON; a list also as CSV or NDJSON, if the client prefers it."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from web.routing import Answer

JSON, CSV, NDJSON = "application/json", "text/csv", "application/x-ndjson"
CURSOR = "X-Next-Cursor"
"""Header of a list in CSV or NDJSON that has more pages."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Beginnings of texts that spreadsheets run as formulas (OWASP, CSV Injection)."""


def encoded(answer: Answer, accept: str) -> web.Response:
    """Return the response of an answer. accept: the request's header Accept."""
    document, headers = answer.document, dict(answer.headers)
    kind = _kind(accept) if isinstance(document, Mapping) and "rows" in document else JSON
    if kind == JSON:
        body = msgspec.json.encode(document)
    else:
        rows = msgspec.to_builtins(document["rows"])
        body = csv_of(rows) if kind == CSV else msgspec.json.Encoder().encode_lines(rows)
        if document.get("cursor"):
            headers[CURSOR] = document["cursor"]
    charset = None if kind == JSON else "utf-8"
    return web.Response(body=body, status=answer.status, headers=headers, content_type=kind, charset=charset)


def csv_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as CSV (RFC 4180). A field of an inner object has a column `object.field`; lists are JSON."""
    flat = [_flat(row) for row in rows]
    columns = dict.fromkeys(name for row in flat for name in row)
    inner = {name.partition(".")[0] for name in columns if "." in name}
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [name for name in columns if name not in inner], restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in flat)
    return text.getvalue().encode(errors="replace")


def _kind(accept: str) -> str:
    """Return the first type in the header that is known; JSON if there is none."""
    asked = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return next((kind for kind in asked if kind in (JSON, CSV, NDJSON)), JSON)


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        value = msgspec.json.encode(value).decode()
    if isinstance(value, str) and value.startswith(_FORMULAS):
        return f"'{value}"
    return value
