"""Options whose value is a JSON object, or the name of a file that has one."""

import json
from typing import Any

from backends.text_files import read_text
from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import is_object


def read_object(text: str | None, name: str) -> Any:
    """Parse the option --name; None if it is not given. Raises InvalidInput."""
    if text is None:
        return None
    if not is_object(text):
        text = read_text(text, f"{name}:", "Name a JSON file, or give the object.")
    return parse_object(text, f"{name}:", '{"de": {"body": "Hallo"}}')


def parse_object(text: str, subject: str, example: str = '{"body": "Hi"}') -> Any:
    """Parse a JSON object. subject: what the text is, in the error. Raises InvalidInput."""
    next_step = f"Write an object such as {example}."
    try:
        parsed = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{subject} is not JSON: {error}.", next_step) from None
    if not isinstance(parsed, dict):
        raise InvalidInput(f"{subject} is not a JSON object.", next_step)
    return parsed
