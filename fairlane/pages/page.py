"""Render a self-contained HTML page: no network, no script."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from dispatcher.model.shown import escaped

_LONG = 32
"""The length from which on a name in a table may be broken."""
_STYLE = """
:root{color-scheme:light dark;--ground:#f4f6f9;--card:#fff;--ink:#1c2430;--soft:#5b6675;--line:#dfe4ea;--good:#1d7a3e;
--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ground:#0d1117;--card:#141a22;--ink:#eef2f7;--soft:#a5b0bf;--line:#2d3744;
--good:#67c78a;--bad:#ff8a80}}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1000px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.7rem;margin:0}h2{font-size:1.15rem;margin:28px 0 8px}p{margin:6px 0}code{font-size:.9em}
.soft{color:var(--soft)}.good{color:var(--good)}.bad{color:var(--bad)}.verdict{font-weight:600}
section{border:1px solid var(--line);border-radius:8px;padding:12px;overflow-x:auto;
box-sizing:border-box;width:max-content;min-width:100%;max-width:calc(100vw - 32px);margin-left:50%;
transform:translateX(-50%);
background:linear-gradient(to left,var(--card) 40%,transparent) right/40px 100% no-repeat local,
linear-gradient(to left,var(--line),transparent) right/18px 100% no-repeat,var(--card)}
svg{max-width:100%;height:auto;display:block}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:18px 0}
dl div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px}
dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.35rem;font-weight:600;font-variant-numeric:tabular-nums}
table{border-collapse:collapse;width:100%;font-size:.86rem}
th,td{text-align:left;padding:5px 12px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}tr:last-child td{border-bottom:0}
td{font-variant-numeric:tabular-nums;white-space:nowrap}
td.words{white-space:normal;min-width:16ch;max-width:60ch}td.long{white-space:normal;overflow-wrap:anywhere;min-width:26ch}
"""


def page(title: str, head: str, sections: Iterable[tuple[str, str]]) -> str:
    """Return the whole file. head: HTML at the top; sections: (title, HTML) each."""
    shown = [f"<h2>{escape(name)}</h2>\n<section>{content}</section>" for name, content in sections]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f"</head>\n<body>\n<main>\n{head}\n" + "\n".join(shown) + "\n</main>\n</body>\n</html>"
    )


def table(rows: Sequence[Mapping[str, Any]], prose: Collection[str] = ()) -> str:
    """Return a table as HTML. prose: the columns that hold sentences, and may be broken between words."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0])
    body = "\n".join(
        f"<tr>{''.join(_cell(value, prose=name in prose) for name, value in row.items())}</tr>" for row in rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _cell(value: Any, *, prose: bool) -> str:
    """Return a table cell. A single name breaks only if it is very long."""
    if isinstance(value, bool):
        return f'<td class="{"good" if value else "bad"}">{"yes" if value else "no"}</td>'
    kind = ' class="words"' if prose else ' class="long"' if len(str(value)) > _LONG else ""
    return f"<td{kind}>{escape(escaped(str(value)))}</td>"
