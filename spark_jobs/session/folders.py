"""Names of folders."""

import re
from hashlib import blake2b

_UNSAFE = re.compile(r"(?![A-Za-z0-9._-])[\x00-\x7f]")
_LONGEST_NAME = 200
"""The maximum length of a folder name in bytes; a file system allows 255."""


def folder_name(name: str) -> str:
    """Return the name of an app or a task as part of a path, whatever characters a record has in it.

    Readers of partitions decode it. A name that is too long for a folder is cut, and a digest is added to tell it from
    others.
    """
    escaped = _UNSAFE.sub(lambda each: f"%{ord(each[0]):02X}", name)
    if len(escaped.encode()) <= _LONGEST_NAME:
        return escaped
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{escaped.encode()[: _LONGEST_NAME - 20].decode(errors='ignore')}~{digest}"
