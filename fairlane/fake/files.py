"""Files that only their owner can read."""

from pathlib import Path

from backends.durable_files import replace_durably
from dispatcher.model.errors import InvalidInput


def write_private(file: Path, data: bytes) -> None:
    """Write a file. Raises InvalidInput."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_durably(file, data, 0o600)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror or error}.", "Name another folder.") from error
