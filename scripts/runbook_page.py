"""Make the console's page of runbooks from docs/runbooks.md."""

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

_BEGIN = '{% extends "frame.html" %}\n{% block main %}{% raw %}\n<article class="panel text">\n'
_END = "</article>\n{% endraw %}{% endblock %}\n"


def runbook_page(markdown: str) -> str:
    """Return the template. The server has no other document, so links to these become their names."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(markdown)
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", re.sub(r"[^a-z0-9 -]", "", tokens[index + 1].content.lower()).replace(" ", "-"))
        elif token.children:
            token.children = _named(token.children)
    return _BEGIN + parser.renderer.render(tokens, parser.options, {}) + _END


def _named(children: Sequence[Token]) -> list[Token]:
    """Return the parts of a paragraph, with the names of other documents in place of links to them."""
    shown: list[Token] = []
    document = ""
    for token in children:
        address = str(token.attrGet("href") or "")
        if address.endswith(".md") or ".md#" in address:
            document = address.partition("#")[0]
        elif token.type == "link_close" and document:
            shown += [Token("text", "", 0, content=" in "), Token("code_inline", "code", 0, content=f"docs/{document}")]
            document = ""
        else:
            shown.append(token)
    return shown
