"""Render a self-contained HTML page: no network, no script."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any


def whole_page(title: str, style: str, head: str, sections: Iterable[tuple[str, str]]) -> str:
    """Return the whole file. head: HTML at the top; sections: (title, HTML) each."""
    shown = [f"<h2>{escape(name)}</h2>\n<section>{content}</section>" for name, content in sections]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n"
        f"</head>\n<body>\n<main>\n{head}\n" + "\n".join(shown) + "\n</main>\n</body>\n</html>"
    )


def html_table(rows: Sequence[Mapping[str, Any]], cell: Callable[[str, Any], str]) -> str:
    """Return a table as HTML. cell: returns the HTML of a value, by the name of its column."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0])
    body = "\n".join(f"<tr>{''.join(cell(*named) for named in row.items())}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
