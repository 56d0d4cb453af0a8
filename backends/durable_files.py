"""Files that survive a power loss."""

import os
from pathlib import Path


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
