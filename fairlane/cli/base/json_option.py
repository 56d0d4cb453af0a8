"""Options whose value is a JSON object, or the name of a file that has one."""

import json
from pathlib import Path
from typing import Any

from backends.files import read_text
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


def read_message(text: str) -> Any:
    """Parse the option: a JSON object, a file that contains one (or a text), or a text. Raises InvalidInput."""
    if is_object(text):
        return parse_object(text, "message: --message")
    is_json = text.lower().endswith(".json")
    try:
        is_file = len(text) < 4_096 and "\n" not in text and Path(text).is_file()
    except OSError:
        is_file = False
    if not is_file and is_json:
        raise InvalidInput(f"message: there is no file {text}.", "Name a JSON file, or give the message itself.")
    if not is_file:
        return text.removeprefix("\ufeff")
    content = read_text(text, "message:", "Name a text or JSON file in UTF-8.").strip()
    if not content:
        raise InvalidInput(f"message: {text} is empty.", "Name a text or JSON file.")
    return parse_object(content, f"message: {text}") if is_json or is_object(content) else content
