"""Make text safe to show: hide secrets, and escape characters that control a terminal.

This is the one place that decides what is hidden: the secrets that this process knows, texts with the form of a secret,
and the credentials in addresses.
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

MASK = "********"
SECRET_NAME = re.compile(r"pass|secret|token|key|auth|credential", re.IGNORECASE)
"""Names of settings whose texts are hidden."""
_MIN_SECRET = 4
"""Shorter secrets are hidden where their name tells, and nowhere else: `a` is in every text."""
_MIN_PART, _MIN_UNNAMED = 8, 16
"""Minimum length of a line of a secret, and of a value in an address whose name does not tell that it is a secret."""
_MAX_SECRET = 8_192
"""Characters of a text beyond a cut that are looked at: the longest secrets, such as a service account, have fewer."""
_ORDINARY = re.compile(r"\*+|\d{1,7}|admin|default|demo|fairlane|guest|password|pulsar|redis|root|secret|test|token")
"""Secrets that are in ordinary texts too, so that hiding them everywhere would only spoil those."""
_LINE_END = re.compile(r"(?:[\r\n]|\\r|\\n)+")
_PREFIX = re.compile(r"^(?:bearer|basic|token|key)[ =:]+|whsec_", re.IGNORECASE)
"""Words that a setting has before its secret."""
_FORMS = (
    ("eyj", re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?")),  # a JSON web token
    ("akia", re.compile(r"\bAKIA[0-9A-Z]{16}\b")),
    ("ya29.", re.compile(r"\bya29\.[\w.-]{6,}")),  # an access token of Google
    ("bearer ", re.compile(r"(?<=\bbearer )\s*[\w.~+/=-]{6,}", re.IGNORECASE)),
    ("basic ", re.compile(r"(?<=\bbasic )\s*[\w+/=-]{6,}", re.IGNORECASE)),
    ("private key", re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)),
)
"""Secrets by their form. The first word, in small letters, is in every such text: texts of megabytes have none."""
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,20}://)(?P<rest>\S+)")
_AUTHORITY_END = re.compile(r"[/?#]")
_QUERY = re.compile(r"\?[^#]*")
_PARAMETER = re.compile(r"(?P<name>[^&=]+=)?(?P<value>[^&]+)")
_MASKED = re.compile(r"\*{8}[^\w&]*")
_HOST = re.compile(r"[^:]+(:\d*)?|\[.*")
_UNQUOTED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_NO_PORT = re.compile(r"[^\[/?#]*:(?P<password>[^/?#,\s]*[^\d/?#,\s][^/?#,\s]*)")


class Secrets:
    """Texts to be hidden wherever they occur, also as JSON, Python and addresses write them."""

    def __init__(self) -> None:
        self._forms: tuple[str, ...] = ()

    def add(self, secrets: Iterable[str]) -> None:
        """Hide these from now on, except short ones."""
        self._hold({form for secret in secrets for form in _forms_of(secret)})

    def join(self, others: "Secrets") -> None:
        """Hide those of another process, too."""
        self._hold({*others._forms})

    def _hold(self, forms: set[str]) -> None:
        if not forms <= {*self._forms}:
            self._forms = tuple(sorted({*self._forms, *forms}, key=len, reverse=True))

    def mask(self, text: str) -> str:
        """Return the text without them; the same object if it has none."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text


KNOWN = Secrets()
"""The secrets that this process has read. Where a secret is read, it is added."""


def beginning(text: str, limit: int) -> str:
    """Return a text of a foreign server without known secrets, and then cut: nobody would know a part of a secret."""
    return KNOWN.mask(text[: limit + _MAX_SECRET])[:limit]


def bare(secret: str) -> str:
    """Return a secret without what a file or an editor has put around it: white space and a byte order mark."""
    return secret.strip("\ufeff \t\r\n")


def hide(secret: str) -> str:
    """Hide a secret in all that this process shows from now on. Return it without white space around it."""
    _hide(bare(secret))
    return bare(secret)


def hide_in(address: str) -> str:
    """Hide the password of an address, and the secrets in its query; return the address."""
    _hide(*secrets_in_address(address))
    return address


def hide_named(values: Any, name: str = "") -> None:
    """Hide the texts of a user's own settings that their names call secrets, and those in addresses."""
    for field, value in named_values(values, name):
        if isinstance(value, str) and "://" in value:
            hide_in(value)
        elif isinstance(value, str) and SECRET_NAME.search(field) and len(value) >= _MIN_PART:
            hide(value)


def named_values(document: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a document that are neither objects nor lists, each behind the name of its field."""
    if isinstance(document, Mapping):
        for key, inner in document.items():
            yield from named_values(inner, str(key))
    elif isinstance(document, list | tuple):
        for inner in document:
            yield from named_values(inner, name)
    else:
        yield name, document


def _hide(*secrets: str) -> None:
    KNOWN.add(secret for secret in secrets if not _ORDINARY.fullmatch(secret))


def secrets_in_address(address: str) -> Iterable[str]:
    """Yield what may be a password in an address, and values of its query, as the address has them and decoded.

    A password is what comes before the last @, or what is no port where a port should be.
    """
    rest = address.rpartition("://")[2]
    host = rest.rpartition("@")[2]
    users = {part.rpartition("@")[0] for part in (rest, _AUTHORITY_END.split(rest, maxsplit=1)[0]) if "@" in part}
    no_port = None if users else _NO_PORT.match(host)
    found = [no_port["password"]] if no_port else [user.partition(":")[2] or user for user in users]
    parameters = [each.partition("=") for each in host.partition("?")[2].partition("#")[0].split("&")]
    found += [value for name, _, value in parameters if SECRET_NAME.search(name) or len(value) >= _MIN_UNNAMED]
    yield from (text for secret in found for text in {secret, _unquoted(secret)})


def without_credentials(text: str) -> str:
    """Hide secrets: known ones, those with the form of one, and in addresses all before an `@` and in the query."""
    text = KNOWN.mask(text)
    small = text.lower()
    for word, form in _FORMS:
        if word in small:
            text = form.sub(MASK, text)
    return _URL.sub(_masked, text) if "://" in text and ("@" in text or "?" in text) else text


def masked_address(address: str) -> str:
    """Return a text that should be an address, with all before its last `@` hidden, whatever it is."""
    before, at, host = address.rpartition("@")
    scheme, mark, user = before.rpartition("://")
    name, colon, _ = user.partition(":")
    return without_credentials(f"{scheme}{mark}{name if colon else ''}:{MASK}@{host}" if at else address)


def masked_document(value: Any, mask: Callable[[str], str] = KNOWN.mask) -> Any:
    """Return a JSON document with its texts masked: of data, known secrets alone, since a target may be an address."""
    if isinstance(value, Mapping):
        return {name: masked_document(inner, mask) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked_document(inner, mask) for inner in value]
    return mask(value) if isinstance(value, str) else value


def escaped(text: str, *, lines: bool = False) -> str:
    """Escape unprintable characters, so that a provider's text can neither control a terminal nor start a new line.

    `lines`: keep line breaks, because they are the program's own.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or (lines and each == "\n") else each.encode("unicode_escape").decode()
        for each in text
    )


def _masked(url: re.Match[str]) -> str:
    user, host = _parted(url["rest"], url["scheme"])
    return url["scheme"] + user + _QUERY.sub(_masked_query, host, count=1)


def _parted(rest: str, scheme: str) -> tuple[str, str]:
    """Split the rest of an address into its masked user part and everything from the host.

    A password may have characters that it should not: everything before the last `@` is hidden, unless a web address
    has no user and the `@` is in its path.
    """
    before, at, _ = rest.rpartition("@")
    authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
    in_path = scheme.startswith("http") and "@" not in authority and _HOST.fullmatch(authority)
    if not at or in_path:
        return "", rest
    name, colon, _ = before.partition(":")
    return (f"{name}:{MASK}@" if colon else f"{MASK}@"), rest[len(before) + 1 :]


def _forms_of(secret: str) -> set[str]:
    lines = _LINE_END.split(secret)
    parts = [part.strip() for part in lines if len(part) >= _MIN_PART and not part.startswith("-----")]
    inner = _PREFIX.sub("", secret, count=1)
    long_enough = {text for text in (secret, inner, *(parts if lines[1:] else ())) if len(text) >= _MIN_SECRET}
    return long_enough | {form for text in long_enough for form in _written(text)}


def _written(text: str) -> tuple[str, ...]:
    data, quoted = text.encode(errors="surrogatepass"), _quoted(text)
    python = (repr(text)[1:-1], ascii(text)[1:-1], repr(data)[2:-1])
    beside_quotes = (repr(f"{text}'\"")[1:-4], repr(data + b"'\"")[2:-4])  # in a text that has both, one is escaped
    web = (quoted, quoted.replace("%2F", "/"), quoted.replace("%20", "+"), html.escape(text))
    return json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], *python, *beside_quotes, *web


def _quoted(text: str) -> str:
    """Return a text as an address has it. (urllib, which this package does not import, has the same.)"""
    data = text.encode(errors="surrogatepass")
    return "".join(chr(byte) if chr(byte) in _UNQUOTED else f"%{byte:02X}" for byte in data)


def _unquoted(text: str) -> str:
    data = text.encode(errors="surrogatepass")
    return _ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), data).decode(errors="replace")


def _masked_query(query: re.Match[str]) -> str:
    return "?" + _PARAMETER.sub(lambda each: (each["name"] or "") + _hidden(each["value"]), query[0][1:])


def _hidden(value: str) -> str:
    """Return the mask; a value that is masked already keeps the quote or comma behind it."""
    return value if _MASKED.fullmatch(value) else MASK
