"""The budget counts lines of code, not what explains or connects them."""

from scripts.budget import lua_lines, python_lines

MODULE = '''"""A module."""

import os
from pathlib import (
    Path,
)

# Why.
LIMIT = 1  # a comment behind code


class Size:
    """A size.

    In two paragraphs."""

    bytes: int = 0
    """A field."""

    def text(self) -> str:
        return """two
lines"""
'''

LUA = """-- library
-- include: other.lua

local function one()
  return 1  -- a comment behind code
end
"""


def test_budget_leaves_out_docstrings_comments_blank_lines_and_imports() -> None:
    assert python_lines(MODULE) == len(["LIMIT", "class", "bytes", "def", "return", "lines"])


def test_budget_counts_lua_alike() -> None:
    assert lua_lines(LUA) == len(["local", "return", "end"])
