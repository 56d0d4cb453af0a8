"""Self-contained HTML pages: pictures and tables, legible on light and dark backgrounds."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from dispatcher.model.shown import escaped
from fairlane.screen.fields import kind_of


def page(title: str, head: str, sections: Iterable[tuple[str, str]]) -> str:
    """Return the whole file. head: HTML at the top; sections: (title, HTML) each."""
    shown = [f"<section><h2>{escape(name)}</h2>\n{content}</section>" for name, content in sections]
    style = files("fairlane.pages").joinpath("page.css").read_text()
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n"
        f"</head>\n<body>\n<main>\n<header>{head}</header>\n" + "\n".join(shown) + "\n</main>\n</body>\n</html>"
    )


def table(rows: Sequence[Mapping[str, Any]], prose: Collection[str] = ()) -> str:
    """Return a table as HTML, with figures on the right. prose: the columns of sentences, which may be broken."""
    names = list(rows[0])
    kinds = {name: "text" if name in prose else kind_of(name, [str(row[name]) for row in rows]).value for name in names}
    head = "".join(f'<th scope="col" class="{kinds[name]}">{escape(name)}</th>' for name in names)
    body = "\n".join(f"<tr>{''.join(_cell(row[name], kinds[name]) for name in names)}</tr>" for row in rows)
    whole = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    return f'<div class="scroll" tabindex="0">{whole}</div>'


def _cell(value: Any, kind: str) -> str:
    if isinstance(value, bool):
        return f'<td class="{"good" if value else "bad"}">{"yes" if value else "no"}</td>'
    return f'<td class="{kind}">{escape(escaped(str(value)))}</td>'
