"""The list of mutations: small changes to the program, each of which breaks a law that a test has to state.

One TOML file for each area: `tests`, the files that are asked about its mutations, quick ones first; and `mutations`.
"""

from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).parent


class Mutation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A piece of a file that is replaced."""

    name: str
    file: str
    """Its path from the root of the repository."""
    why: str
    """The loss for a user."""
    old: str
    """Occurs exactly once in the file."""
    new: str
    tests: list[str] = []
    """Files that are asked before those of the area."""
    survives: str = ""
    """Why no test has to fail: the reason, in a sentence."""


class Area(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mutations that the same tests are asked about."""

    tests: list[str]
    mutations: list[Mutation]

    def asked(self, mutation: Mutation) -> list[str]:
        """Return the test files for one of its mutations, in their order."""
        return list(dict.fromkeys([*mutation.tests, *self.tests]))


class DoesNotApply(Exception):
    """The text that a mutation replaces is not in its file, or is there more than once."""


def areas() -> dict[str, Area]:
    """Return the whole list by the names of its areas. Raises msgspec.MsgspecError for one that cannot be read."""
    return {path.stem: msgspec.toml.decode(path.read_bytes(), type=Area) for path in sorted(LISTS.glob("*.toml"))}


def mutated(text: str, mutation: Mutation) -> str:
    """Return the file's text with the mutation in it. Raises DoesNotApply."""
    found = text.count(mutation.old)
    if found != 1:
        raise DoesNotApply(
            f"{mutation.file} has the text it replaces {found} times, not once: bring the list up to date"
        )
    return text.replace(mutation.old, mutation.new)
