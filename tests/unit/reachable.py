"""Objects that an object keeps alive, however deep in its parts."""

import gc
from collections import deque

CONTAINERS = (dict, list, tuple, set, frozenset, deque)


def texts_in(thing: object, *, but: object = None) -> set[str]:
    """Return the texts in an object of the engine or the scheduler and in its parts of these packages.

    but: a part to leave out.
    """
    texts, seen, waiting = set[str](), {id(but)}, [thing]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            texts.add(one)
        elif id(one) not in seen and _is_part(one):
            seen.add(id(one))
            waiting += gc.get_referents(one)
    return texts


def _is_part(thing: object) -> bool:
    return isinstance(thing, CONTAINERS) or type(thing).__module__.startswith(
        ("dispatcher.engine", "dispatcher.scheduling")
    )
