"""Files that people write, and files that must survive a power cut.

The former are UTF-8 with or without a byte order mark, and bounded in size and nesting.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from dispatcher.model.errors import InvalidInput

BOM: Final = b"\xef\xbb\xbf"
"""Editors on Windows put it at the beginning of a text in UTF-8. It is no part of the text."""
MAX_BYTES: Final = 4 << 20
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_MAX_LEVELS: Final = 32
_NAME: Final = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_DEEP_KEY: Final = re.compile(rf"(?:{_NAME}[ \t]*\.[ \t]*){{{_MAX_LEVELS}}}{_NAME}")
"""A dotted TOML key. The parser's memory grows with the square of its levels: 4 GB for a key of 64 KiB."""


def read_text(path: str | Path, subject: str = "", next_step: str = "Save it as a text in UTF-8.") -> str:
    """Return the text of a file. subject: begins the error, before the path. Raises InvalidInput."""
    named = f"{subject} {path}".lstrip()
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise InvalidInput(f"{named} cannot be read: {cause}.", "Check its path and permissions.") from error
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"{named} has more than {MAX_BYTES >> 20} MiB.", "Check that it is the right file.")
    if data.startswith(_UTF_16) or b"\0" in data:
        raise InvalidInput(f"{named} is not a text in UTF-8: it has NUL characters, as UTF-16 has.", next_step)
    try:
        return data.removeprefix(BOM).decode()
    except UnicodeError as error:
        raise InvalidInput(f"{named} is not a text in UTF-8: {error}.", next_step) from error


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError, also for nesting that is too deep."""
    deep = f"it is nested deeper than {_MAX_LEVELS} levels"
    if _DEEP_KEY.search(text):
        raise ValueError(deep)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(deep) from None


def write_durably(path: Path, body: bytes, mode: int = 0o666) -> None:
    """Write a file so that it survives a power loss. mode: permissions of a new file, less the umask."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def replace_durably(path: Path, body: bytes, mode: int = 0o666) -> None:
    """Write or replace a file: after a crash it has its old or its new content, never a part. One writer at a time."""
    fresh = path.with_name(f"{path.name}.new")
    write_durably(fresh, body, mode)
    fresh.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make the contents of a file, or the names in a directory, survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
