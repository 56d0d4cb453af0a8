"""Small JSON files of a stack: its servers, and the ports to which data is bound."""

from pathlib import Path
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from backends.files import replace_durably
from lab.stack.errors import StackError

T = TypeVar("T")


class StoredFile(Generic[T]):
    """One value of a type. A crash at any time leaves the old or the new one."""

    def __init__(self, path: Path, kind: type[T], if_damaged: str) -> None:
        """Name the file, the type of its value, and what the user can do if it is damaged."""
        self.path, self._adapter, self._if_damaged = path, TypeAdapter(kind), if_damaged

    def load(self) -> T | None:
        """Return the value; None if there is no file. Raises StackError."""
        try:
            return self._adapter.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise StackError(
                f"The file {self.path} cannot be read ({error.error_count()} faults).", self._if_damaged
            ) from error

    def save(self, value: T) -> None:
        """Replace the value."""
        replace_durably(self.path, self._adapter.dump_json(value, indent=2))
