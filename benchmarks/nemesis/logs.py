"""Logs of JSON lines that may still be written."""

import json
from pathlib import Path
from typing import Any


def lines(path: Path) -> list[Any]:
    """Return the complete lines of a file, which may not exist. Its writer may be in the middle of the last line."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
