"""Ids of tasks as an app's keys see them.

A task that was submitted with a key of app `shop` under the id `sale` is `shop--sale` inside, so that two apps may
choose the same id. Other tasks of the app, submitted by Python or the command line, are `~ID`. Whether a task is the
app's own is decided by its record's field `app`, never by its id.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from dispatcher.access.principal import OWN_ID
from dispatcher.model.errors import InvalidInput
from dispatcher.wire.topics import TASK_PATTERN

AS_IS = "~"
"""Before the internal id of a task that was not submitted with a key."""
MAX_ID_LENGTH = 100
_TASK = re.compile(TASK_PATTERN)
_KEY_BYTES = 16
_SERVER = re.compile(r"\b(Redis|Pulsar)(?: at | of the local stack |: could not ).*", re.DOTALL)
_PROCESS = re.compile(r"(?<=\bby )[\w.-]+:\d+\b")


class ScopedIds(NamedTuple):
    """Ids for one app; for an operator (app "") they are the internal ones."""

    app: str

    def inside(self, id_: str) -> str:
        """Return the internal id of a task that a key names."""
        if not self.app:
            return id_
        return id_[len(AS_IS) :] if id_.startswith(AS_IS) else f"{self.app}{OWN_ID}{id_}"

    def shown(self, inside: str) -> str:
        """Return the id by which a key names a task."""
        if not self.app or not inside:
            return inside
        own = inside.removeprefix(f"{self.app}{OWN_ID}")
        return own if own != inside and is_task_id(own) else f"{AS_IS}{inside}"

    def in_text(self, text: str, named: Mapping[str, str]) -> str:
        """Return a text for people with the ids as a key names them, and without places of servers and processes.
        named: known ids, by the internal ones."""
        if not self.app:
            return text
        ids = sorted((id_ for id_ in named if id_ in text), key=len, reverse=True)
        patterns = [rf"(?<=ask ){re.escape(id_)}(?![\w-])" for id_ in ids]
        patterns.append(rf"(?<![A-Za-z0-9._~-]){re.escape(self.app)}{OWN_ID}(?=[A-Za-z0-9])")
        text = re.sub("|".join(patterns), lambda found: named.get(found[0], ""), text)
        return _PROCESS.sub("another process", _SERVER.sub(r"\1 does not answer.", text))

    def new(self, id_: str) -> str:
        """Return the internal id for a task to be submitted. Raises InvalidInput."""
        if not self.app:
            return id_
        longest = MAX_ID_LENGTH - len(self.inside(""))
        if not is_task_id(id_) or len(id_) > longest:  # an id that began with "-" could be that of an app `shop-`
            raise InvalidInput(
                f"id: is {id_[:MAX_ID_LENGTH]!r}; ids of app {self.app} are 1 to {longest} of A-Z a-z 0-9 . _ - and "
                "begin with a letter or digit."
            )
        return self.inside(id_)


def is_task_id(text: str) -> bool:
    """Return whether a task may have this id."""
    return _TASK.fullmatch(text) is not None


def id_of_key(app: str, idempotency_key: str) -> str:
    """Return the id of a task that has none of its own: it follows from the app and the header Idempotency-Key."""
    given = f"{app} {idempotency_key}".encode(errors="surrogatepass")  # a header may hold any bytes
    return f"k-{blake2b(given, digest_size=_KEY_BYTES).hexdigest()}"
