"""States of the view without what tells apart those that go on alike."""

from collections.abc import Iterable, Mapping
from typing import Any

from backends.redis.keys import COUNT_FIELDS
from dispatcher.model.view_form import FORM
from lab.simulator.redis.store import Hash, SortedSet, Store, Text
from tests.exploration.envelopes import TASK
from tests.exploration.worker import NAME
from tests.virtual_clock import VirtualClock

PREFIX = "x"


def key_of(*parts: str) -> bytes:
    return ":".join((PREFIX, *parts)).encode()


LATER_MS = 1e13
"""When claims end that have not been made to end."""
BEFORE = b"0"
"""The position of all that has been read."""
OPEN = key_of("open", TASK)
CLAIM = 4
"""Index of the claim in the state of an open envelope."""
BITMAPS = (key_of("touched:"), key_of("final:"))
FORGOTTEN = tuple(
    map(key_of, ("feed", "version", "stats", "demand", "pool:", "vt:", "parts", "fold:", "served", "worker"))
)
STARTED_MS = VirtualClock().wall_ms()
READY = {
    b"id": b"ready", b"ready": b"1", b"started_ms": b"%d" % STARTED_MS, b"grants_after_ms": b"0", b"partitions": b"1",
    b"form": b"%d" % FORM,
}  # fmt: skip
SUMS = {b"claims", b"finals", *(field.encode() for field in COUNT_FIELDS)}
FIGURES = {b"rate", b"rate_n", b"rate_ms", b"why", b"why_ms", b"why_from", b"pauses", b"first_outcome_ms", b"lacking"}


def plain(store: Store) -> None:
    """Forgets what tells states apart that go on alike: sums, demand, times, positions, feed and cursors."""
    for key in list(store.live_keys()):
        store.persist(key)
        if key.startswith(FORGOTTEN):
            store.delete(key)
        elif key.startswith(BITMAPS):
            bits = store.get(key, Text) or Text()
            store.put(key, Text(bits.rstrip(b"\0")))
            store.tidy(key, store.get(key, Text) or Text())
    claims = store.get(key_of("claims"), SortedSet)
    for member in list(claims.scores) if claims else ():
        store.make(key_of("claims"), SortedSet).put(member, LATER_MS)
    epoch = store.make(key_of("epoch"), Hash)
    if epoch[b"ready"] == b"1":
        epoch.clear()
        epoch.update(READY)
    holds = store.get(key_of("unrecorded"), Hash) or Hash()
    for field, workers in holds.items():
        holds[field] = listed(workers.decode().split("|")[1:-1])
    control = store.get(key_of("control"), Hash) or Hash()
    control.update(dict.fromkeys(control, BEFORE))
    task = store.get(key_of("task", TASK), Hash) or Hash()
    for field in list(task):
        if field in FIGURES or (field in SUMS and task[field] == b"0"):
            del task[field]
        elif field.endswith(b"_pos"):
            task[field] = BEFORE


def ordered(contents: Mapping[bytes, tuple[Any, Any]]) -> list[Any]:
    """In an order that says nothing of how it came about."""
    found = []
    for key, (value, _) in sorted(contents.items()):
        if isinstance(value, dict):
            value = sorted(value.items())
        found.append((key, sorted(value) if isinstance(value, frozenset) else value))
    return found


def listed(workers: Iterable[str]) -> bytes:
    return f"|{'|'.join(sorted(workers))}|".encode()


def other_claim(claim: str) -> str:
    return f"{NAME}{1 - int(claim[len(NAME)])}{claim[len(NAME) + 1 :]}"
