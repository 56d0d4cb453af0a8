"""Make text safe to show: hide credentials, and escape characters that control a terminal."""

import re

MASK = "********"
SECRET_NAME = re.compile(r"pass|secret|token|key|auth|credential", re.IGNORECASE)
"""Names of settings whose texts are hidden."""
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,20}://)(?P<rest>\S+)")
_AUTHORITY_END = re.compile(r"[/?#]")
_QUERY = re.compile(r"\?[^#]*")
_PARAMETER = re.compile(r"(?P<name>[^&=]+=)?[^&]+")
_PORT = re.compile(r"\d+")


def without_credentials(text: str) -> str:
    """Hide passwords and tokens in the addresses in a text: everything before an `@`, and every value of a query."""
    return _URL.sub(_masked, text) if "://" in text else text


def escaped(text: str, *, lines: bool = False) -> str:
    """Escape unprintable characters, so that a provider's text can neither control a terminal nor start a new line.

    `lines`: keep line breaks, because they are the program's own.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or (lines and one == "\n") else one.encode("unicode_escape").decode() for one in text
    )


def _masked(url: re.Match[str]) -> str:
    user, host = _parted(url["rest"])
    return url["scheme"] + user + _QUERY.sub(_masked_query, host, count=1)


def _parted(rest: str) -> tuple[str, str]:
    """Split the rest of an address into its masked user part and everything from the host."""
    end = _AUTHORITY_END.search(rest)
    authority = rest[: end.start()] if end else rest
    if "@" not in authority:
        # An address with a slash in its password is invalid, but it appears in the message that refuses it.
        colon, port = authority.partition(":")[1:]
        if "@" not in rest or not colon or _PORT.fullmatch(port):
            return "", rest
        authority = rest
    before, _, _ = authority.rpartition("@")
    name, colon, _ = before.partition(":")
    return (f"{name}:{MASK}@" if colon else f"{MASK}@"), rest[len(before) + 1 :]


def _masked_query(query: re.Match[str]) -> str:
    return "?" + _PARAMETER.sub(lambda one: (one["name"] or "") + MASK, query[0][1:])
