"""The tree uses none of the turns and names in the word list of CONTRIBUTING.md."""

import io
import re
import subprocess
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[3]
TABLE = re.compile(r"^\| instead of \| write \|\n(?:\|.*\n)+", re.MULTILINE)
NOT_CHECKED = {"CHANGELOG.md"}
LINE_START = re.compile(r"\n[ \t]*(?:#|--)?[ \t]*")


def entries() -> list[str]:
    """Return the first column: turns as they are, names in backquotes."""
    table = TABLE.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert table is not None
    return [entry for row in table[0].splitlines()[2:] for entry in row.split("|")[1].strip().split(", ")]


def sources() -> list[tuple[str, str]]:
    """Return path and text of every tracked program file and document."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.lua", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [path for path in listed.stdout.splitlines() if path not in NOT_CHECKED and (ROOT / path).exists()]
    return [(path, TABLE.sub("", (ROOT / path).read_text(encoding="utf-8"))) for path in paths]


def test_no_turn_of_the_list_is_used() -> None:
    turns = "|".join(re.escape(entry) for entry in entries() if "`" not in entry)
    pattern = re.compile(rf"(?<!\w)(?:{turns})(?!\w).{{0,40}}", re.IGNORECASE)
    found = [(path, hit) for path, text in sources() for hit in pattern.findall(LINE_START.sub(" ", text))]
    assert not found


def test_no_name_of_the_list_is_used() -> None:
    names = {entry.strip("`") for entry in entries() if "`" in entry}
    found = []
    for path, text in sources():
        if path.endswith(".py"):
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            found += [(path, token.start[0], token.string) for token in tokens if token.string in names]
    assert not found
