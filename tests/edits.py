"""Edits of messages as they are stored."""

from typing import Any

from dispatcher.model.task_control import Control, Override


def edit_text(number: int, message: dict[str, Any]) -> str:
    return Control("override", Override(number, message)).text
