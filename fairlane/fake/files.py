"""Files that only their owner can read."""

import os
from pathlib import Path

from dispatcher.model.errors import InvalidInput


def write_private(file: Path, data: bytes) -> None:
    """Write a file. Raises InvalidInput."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(data)
        new.replace(file)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror or error}.", "Name another folder.") from error
