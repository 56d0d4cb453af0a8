"""Count the lines of code of each top-level folder, Python and Lua alike.

python -m scripts.budget [CHECKOUT]

A line of code has something on it besides docstrings, comments and imports.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# The other folders are the product.
REST = ("benchmarks", "docs", "examples", "scripts", "tests")
LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def main(arguments: Sequence[str]) -> int:
    """Print the table of a checkout, and return the exit code."""
    counts = count(Path(arguments[0]) if arguments else ROOT)
    product = {name: lines for name, lines in counts.items() if name not in REST}
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, lines in sorted(product.items(), key=lambda row: -row[1]):
        table.add_row(name, f"{lines:,}")
    table.add_row("product", f"{sum(product.values()):,}", style="bold", end_section=True)
    for name in sorted(counts.keys() - product):
        table.add_row(name, f"{counts[name]:,}")
    Console().print("lines of code, without docstrings, comments, blank lines and imports", table)
    return 0


def count(checkout: Path) -> Counter[str]:
    """Return the lines of code by top-level folder, of the files that git knows."""
    listing = subprocess.run(
        ["git", "ls-files", "*/*.py", "*/*.lua"], cwd=checkout, check=True, capture_output=True, text=True
    )
    counts: Counter[str] = Counter()
    for name in listing.stdout.splitlines():
        text = (checkout / name).read_text("utf-8")
        counts[Path(name).parts[0]] += lua_lines(text) if name.endswith(".lua") else python_lines(text)
    return counts


def python_lines(text: str) -> int:
    """Count the lines of code of a Python module."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {line for token in tokens if token.type not in LAYOUT for line in range(token.start[0], token.end[0] + 1)}
    return len(code - set(_uncounted(ast.parse(text))))


def lua_lines(text: str) -> int:
    """Count the lines of code of a Lua file. This project uses no block comments in Lua."""
    lines = (line.strip() for line in text.splitlines())
    return sum(bool(line) and not line.startswith("--") for line in lines)


def _uncounted(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of imports and docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_docstring(node: ast.AST) -> bool:
    """Return whether a node is a docstring of a module, class, function or field."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
