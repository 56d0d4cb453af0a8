"""Ids of tasks as an app's keys see them.

A task that was submitted with a key of app `shop` under the id `sale` is `shop--sale` inside, so that two apps may
choose the same id. Other tasks of the app, submitted by Python or the command line, are `~ID`. Whether a task is the
app's own is decided by its record's field `app`, never by its id.
"""

import re
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
        return own if own != inside and _TASK.fullmatch(own) else f"{AS_IS}{inside}"

    def new(self, id_: str) -> str:
        """Return the internal id for a task to be submitted. Raises InvalidInput."""
        if self.app and id_.startswith(AS_IS):
            raise InvalidInput(f"id: begins with {AS_IS}, which names tasks that were not submitted with a key.")
        inside = self.inside(id_)
        if self.app and len(inside) > MAX_ID_LENGTH:
            most = MAX_ID_LENGTH - len(inside) + len(id_)
            raise InvalidInput(f"id: has {len(id_)} characters; ids of app {self.app} have at most {most}.")
        return inside


def id_of_key(app: str, idempotency_key: str) -> str:
    """Return the id of a task that has none of its own: it follows from the app and the header Idempotency-Key."""
    return f"k-{blake2b(f'{app} {idempotency_key}'.encode(), digest_size=_KEY_BYTES).hexdigest()}"
