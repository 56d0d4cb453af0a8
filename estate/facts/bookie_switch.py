"""Makes bookies read-only and writable again, through their HTTP interfaces. These have no authentication."""

import json
from collections.abc import Iterable

import urllib3

from backends.bounded import NODE, open_http
from dispatcher.model.errors import DECODING_ERRORS, Refused, Unreachable
from estate.facts.asking import LIMIT_S, Question, ask_all
from estate.facts.questions import bookie_url

ANSWER_S = 5.0
"""How long a change may take; a slow bookie took 0.9 s."""


class BookieSwitch:
    """Changes the mode of one bookie at a time, and lists the writable ones as the metadata has them now."""

    def __init__(self, bookie_http: str) -> None:
        """bookie_http: address of the bookies' HTTP interfaces with {host}. Raises InvalidInput if it is none."""
        bookie_url(bookie_http, "host:0")
        self._template = bookie_http
        self._http = open_http(NODE, retries=False)

    def close(self) -> None:
        self._http.clear()

    def writable(self, bookies: Iterable[str]) -> set[str]:
        """Return the bookies that every answer calls writable, with all of `bookies` asked now.

        Raises Unreachable if none of them answers.
        """
        path = "/api/v1/bookie/list_bookies?type=rw"
        asked = [Question((name, "writable"), bookie_url(self._template, name) + path) for name in bookies]
        replies = ask_all(self._http, asked, LIMIT_S)
        lists = [_names(reply.body) for reply in replies.values() if not reply.failure]
        known = [each for each in lists if each is not None]
        if not known:
            raise Unreachable("No bookie says which bookies are writable.", "Check estate.bookie_http.")
        return set.intersection(*known)

    def set_read_only(self, bookie: str, *, read_only: bool) -> None:
        """Make a bookie read-only, or writable. Raises Refused if it is known not to have happened, and Unreachable if
        it may have happened."""
        url = f"{bookie_url(self._template, bookie)}/api/v1/bookie/state/readonly"
        what = f"bookie {bookie}: to make it {'read-only' if read_only else 'writable'}"
        try:
            answer = self._http.request(
                "PUT",
                url,
                body=json.dumps({"readOnly": read_only}),
                headers={"Content-Type": "application/json"},
                timeout=urllib3.Timeout(connect=LIMIT_S, read=ANSWER_S),
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise Refused(f"{what}: {url} cannot be connected to.", "Check estate.bookie_http.") from error
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"{what}: no answer within {ANSWER_S:g} s.", "The next look shows its state.") from error
        if answer.status >= 300:
            raise Refused(f"{what}: answered {answer.status}.", "Check the bookie's log, and readOnlyModeEnabled.")


def _names(body: bytes) -> set[str] | None:
    try:
        listed = json.loads(body)
    except DECODING_ERRORS:
        return None
    return {str(name) for name in listed} if isinstance(listed, dict) else None
