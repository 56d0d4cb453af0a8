"""Hides secrets in the texts of a capture: by name, by known value, and by form."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dispatcher.model.shown import MASK, SECRET_NAME, Secrets, named_values, without_credentials

_BETWEEN = re.compile(r"[:,;={}\"'\s]+")
_MIN_PART = 8
_MIN_LEARNED = 6
"""Minimum length of a value that is hidden everywhere because a server has it under the name of a secret."""
_SURE = r"pass(?:word|wd|phrase|code)|secret|token|credential|cookie|auth(?:orization|(?:entication)?param)|"
_SURE += r"(?:private|api|access)[_-]?key"
_SURE_NAME = re.compile(_SURE, re.IGNORECASE)
"""Names whose values are secrets whatever they are. Those of SECRET_NAME may be numbers, such as keys per second."""
_SURE_WORDS = ("pass", "secret", "token", "credential", "cookie", "auth", "private", "api", "access")
"""The beginnings of names that _SURE finds."""
_PLAIN = ("", "true", "false", "null", "none", "omitted", MASK)
_NUMBER = re.compile(r"-?[\d.]+")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.-]*")
_PAIR = re.compile(
    rf"(?<![\w.-])(?P<name>[\w.-]{{0,80}}?(?:{_SURE})[\w.-]{{0,80}})(?P<sign>\\?[\"']?\s*[=:]\s*)"
    r"(?P<value>\"(?:[^\"\\]|\\.)*\"?|\\\"(?:[^\"\\]|\\[^\"])*(?:\\\")?|'[^']*'?|(?![{\[])[^\s\"',;&})\]]+)",
    re.IGNORECASE,
)

_PAIR_BEGINS = re.compile(rf"(?:{_SURE})[\w.-]{{0,80}}\\?[\"']?\s*[=:]", re.IGNORECASE)
"""Part of every _PAIR, found faster."""


class Masker:
    """Hides secrets. Texts and documents come back as they were otherwise."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """secrets: values that are hidden wherever they occur, beside those that the process knows."""
        self._secrets = Secrets()
        self._secrets.add(secrets)

    def document(self, value: Any, name: str = "", *, hidden: bool = False) -> Any:
        """Return a JSON document with its secrets hidden. name: of its field. hidden: the value is part of a secret."""
        if isinstance(value, Mapping):
            inside = hidden or _hides_all(name)
            return {self.text(str(key)): self.document(each, str(key), hidden=inside) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(each, name, hidden=hidden) for each in value]
        if hidden or is_secret(name, value):
            return value if _is_plain(value) else MASK
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Return a text with its secrets hidden."""
        text = without_credentials(self._secrets.mask(text))
        small = text.lower()
        if any(word in small for word in _SURE_WORDS):
            text = "".join(map(_masked_line, text.splitlines(keepends=True)))
        return text


def is_secret(name: str, value: Any) -> bool:
    """Return whether a value of a setting is a secret, going by the setting's name."""
    if _is_plain(value):
        return False
    if _SURE_NAME.search(name):
        return True
    return bool(SECRET_NAME.search(name)) and isinstance(value, str) and _NUMBER.fullmatch(value) is None


def secrets_in(document: Any) -> Iterator[str]:
    """Yield the values of a document that are secrets by their names, to be hidden everywhere else as well."""
    for field, value in named_values(document):
        if isinstance(value, str) and _SURE_NAME.search(field) and len(value) >= _MIN_LEARNED:
            yield from () if _is_plain(value) else _and_its_parts(value)


def _and_its_parts(value: str) -> Iterator[str]:
    """Yield a value and what may be its secret part, as in token:SECRET and {"password": "SECRET"}."""
    yield value
    yield from (part for part in _BETWEEN.split(value) if part != value and len(part) >= _MIN_PART)


def _is_plain(value: Any) -> bool:
    """Return whether the value is empty, a mask, or a plain word such as true."""
    return value is None or isinstance(value, bool) or str(value).strip().lower() in _PLAIN


def _hides_all(name: str) -> bool:
    """Return whether all fields below a name are secret. Names of topics are not names of settings."""
    return _IDENTIFIER.fullmatch(name) is not None and _SURE_NAME.search(name) is not None


def _masked_line(line: str) -> str:
    return _PAIR.sub(_masked_pair, line) if _PAIR_BEGINS.search(line) else line


def _masked_pair(pair: re.Match[str]) -> str:
    value = pair["value"]
    bare = value.strip("\\\"'")
    return pair[0] if bare.lower() in _PLAIN or not bare else f"{pair['name']}{pair['sign']}{value.replace(bare, MASK)}"
