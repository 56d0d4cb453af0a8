"""Count the lines of code of each top-level folder, Python and Lua alike, and of JSON and YAML.

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
FLOORS = {
    "dispatch": ("dispatcher", "backends", "quotas", "producers", "consumers", "fairlane"),
    "tables": ("spark_jobs",),
    "estate": ("estate",),
    "front door": ("web",),
    "laboratory": ("lab", "simulator"),
}
"""Top-level folders of the product by floor."""
DATA = "JSON, YAML"
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
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    product = 0
    for floor, folders in FLOORS.items():
        for name in filter(counts.__contains__, folders):
            table.add_row(f"  {name}", f"{counts[name]:,}")
        of_floor = sum(counts.pop(name, 0) for name in folders)
        product += of_floor
        table.add_row(floor, f"{of_floor:,}", style="bold", end_section=True)
    table.add_row("product", f"{product:,}", style="bold", end_section=True)
    for name, lines in sorted(counts.items()):
        table.add_row(name, f"{lines:,}")
    Console().print("lines of code, without docstrings, comments, blank lines and imports", table)
    return 0


def count(checkout: Path) -> Counter[str]:
    """Return the lines of code by top-level folder, of the files that git knows."""
    command = ["git", "ls-files", "*/*.py", "*/*.lua", "*.json", "*.yaml", "*.yml"]
    listing = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True)
    counts: Counter[str] = Counter()
    for name in listing.stdout.splitlines():
        text = (checkout / name).read_text("utf-8")
        if name.endswith((".py", ".lua")):
            counts[Path(name).parts[0]] += lua_lines(text) if name.endswith(".lua") else python_lines(text)
        else:
            counts[DATA] += data_lines(text)
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


def data_lines(text: str) -> int:
    """Count the lines of a JSON or YAML file that are neither blank nor a comment."""
    lines = (line.strip() for line in text.splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


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
