"""Take in and check an audience; targets that have come can be used while the rest is waited for."""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

from producers.cutter import Slab, SlabSource, slabs_of
from producers.validation import Accepted, Refusal, check_slab


@dataclass(slots=True)
class _Filling:
    """A slab being filled from the audience. taken: items of it that were already handed out."""

    slab: Slab
    began_s: float
    taken: int = 0


class Intake:
    """The audience is iterated in the caller's thread, for a database cursor may be behind it. `working` is held there
    except while the audience is waited for: a thread that gets it then may use `early` and all that the caller
    works with."""

    def __init__(
        self,
        audience: Iterable[object] | SlabSource,
        on_refusals: Callable[[list[Refusal]], None],
        clock_s: Callable[[], float],
    ) -> None:
        """on_refusals: called in the caller's thread."""
        self.working = threading.Lock()
        self._audience = audience
        self._on_refusals = on_refusals
        self._clock_s = clock_s
        self._filling: _Filling | None = None
        self._late: list[Refusal] = []

    def accepted(self, unit: int) -> Generator[Accepted, None, None]:
        """Yield good targets in the audience's order, a multiple of `unit` at a time where possible. Close it when
        done; exceptions of the audience pass through."""
        slabs = slabs_of(self._audience, unit, begun=self._begin)
        self.working.acquire()
        try:
            while (slab := self._next(slabs)) is not None:
                taken, self._filling = self._filling.taken if self._filling else 0, None
                accepted = self._checked(slab, taken)
                if accepted.addresses:
                    yield accepted
        finally:
            self.working.release()

    def early(self, older_s: float) -> Accepted | None:
        """Return the items of a slab that is not full `older_s` after it was begun. Call it with `working` held."""
        filling = self._filling
        if filling is None or self._clock_s() - filling.began_s < older_s:
            return None
        items, first = filling.slab.items[filling.taken :], filling.taken
        filling.taken += len(items)
        accepted, refusals = check_slab(items, lambda index: filling.slab.line_of(first + index))
        self._late += refusals
        return accepted if accepted.addresses else None

    def _begin(self, slab: Slab) -> None:
        self._filling = _Filling(slab, self._clock_s())

    def _next(self, slabs: Iterator[Slab]) -> Slab | None:
        self.working.release()
        try:
            slab = next(slabs, None)
        finally:
            self.working.acquire()
        late, self._late = self._late, []
        if late:
            self._on_refusals(late)
        return slab

    def _checked(self, slab: Slab, taken: int) -> Accepted:
        accepted, refusals = check_slab(slab.items[taken:] if taken else slab.items, lambda i: slab.line_of(taken + i))
        if refusals:
            self._on_refusals(refusals)
        return accepted
