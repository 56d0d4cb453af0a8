"""Users of the console, as a proxy in front of it names them, and their rights."""

from typing import Self

import msgspec

from dispatcher.access.principal import Principal, Scope
from dispatcher.model.errors import DECODING_ERRORS, Malformed

LOCAL_USER = "local"
"""The operator of this machine, who signs in by a link that was printed to its terminal."""


class User(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rights of a user, as they are stored under the name."""

    scopes: frozenset[Scope] = frozenset()
    """Empty: the user was removed."""
    app: str = ""
    """Empty: every app."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse stored rights. Raises Malformed."""
        try:
            return msgspec.json.decode(text, type=cls)
        except DECODING_ERRORS as error:
            raise Malformed(f"its rights are not readable: {error}") from error

    @property
    def text(self) -> str:
        """The stored form."""
        return msgspec.json.encode(self, order="deterministic").decode()

    def principal(self, name: str) -> Principal:
        """Return who asks under the name."""
        return Principal(kind="user", name=name, app=self.app, scopes=self.scopes)
