"""Options whose value is a JSON object, or the name of a file that has one."""

import json
from pathlib import Path
from typing import Any

from dispatcher.model.errors import InvalidInput


def read_object(text: str | None, name: str) -> Any:
    """Parse the option --name; None if it is not given. Raises InvalidInput."""
    if text is None:
        return None
    if not text.lstrip().startswith("{"):
        text = read_file(text, name, "Name a JSON file, or give the object.")
    return parse_object(text, f"{name}:", '{"de": {"body": "Hallo"}}')


def read_file(path: str, name: str, next_step: str) -> str:
    """Return the text of a file that the option --name names. Raises InvalidInput."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"{name}: {path} cannot be read: {error}.", next_step) from error


def parse_object(text: str, subject: str, example: str = '{"body": "Hi"}') -> Any:
    """Parse JSON. subject: what the text is, in the error. Raises InvalidInput."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{subject} is not JSON: {error}.", f"Write an object such as {example}.") from None
