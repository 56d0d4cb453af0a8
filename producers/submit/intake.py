"""Read and check an audience. Targets that have come can be used while waiting for the rest."""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import get_args

from dispatcher.channels.submission.address import AddressForm
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.model.errors import InvalidInput
from producers.files.duplicates import DuplicateFilter, Duplicates
from producers.submit.cutter import Slab, SlabSource, slabs_of
from producers.submit.validation import Accepted, Refusal, check_slab

MAX_FIRST = 10_000
"""Most targets of a trial send. Other tasks of the tier share its retry lane, where these are sent from."""


@dataclass(frozen=True, slots=True)
class AudienceRules:
    """The rules for an audience."""

    allow_empty: bool = False
    """Whether the audience may have no target, or no accepted target."""
    duplicates: Duplicates = "keep"
    first: int | None = None
    """Targets, the first of the audience, that are sent before a new task waits for a go; None: it waits for none."""

    def __post_init__(self) -> None:
        if self.first is not None and not 1 <= self.first <= MAX_FIRST:
            raise InvalidInput(f"first: is {self.first}; it must be 1 to {MAX_FIRST:,}.")
        if self.duplicates not in get_args(Duplicates):
            raise InvalidInput(
                f"duplicates: is {self.duplicates!r}; it must be one of {', '.join(get_args(Duplicates))}."
            )


def check_audience(audience: object) -> None:
    """Raise InvalidInput for an object that is not an audience, even if it is iterable: a text yields its
    characters."""
    is_other = isinstance(audience, str | bytes | bytearray | memoryview | Mapping)
    if is_other or not isinstance(audience, Iterable | SlabSource):
        raise InvalidInput(
            f"targets: the audience is of type {type(audience).__name__}; it must be an iterable of targets.",
            'Write ["token-1"] for one target, and TargetsFile("devices.csv") for a file.',
        )


@dataclass(slots=True)
class _Filling:
    slab: Slab
    taken: int = 0
    """The number of its items already handed out."""


class Intake:
    """Reads an audience in the caller's thread, since a database cursor may be behind it.

    `working` is held in that thread except while waiting for the audience. Another thread that acquires it may use
    `early` and everything that the caller works with.
    """

    def __init__(
        self,
        audience: Iterable[object] | SlabSource,
        on_refusals: Callable[[list[Refusal]], None],
        clock_s: Callable[[], float],
        duplicates: Duplicates = "keep",
        check: TargetCheck | None = None,
        form: AddressForm = AddressForm(),
    ) -> None:
        """on_refusals: called in the caller's thread. check, form: those of the task's channel."""
        self._check = check
        self._form = form
        self.working = threading.Lock()
        self._audience = audience
        self._on_refusals = on_refusals
        self._clock_s = clock_s
        self._awaited_since_s = clock_s()
        self._filling: _Filling | None = None
        self._late: list[Refusal] = []
        self._any = False
        """Whether a target was accepted."""
        self._duplicates = DuplicateFilter(duplicates)

    @property
    def duplicates(self) -> int | None:
        """Return the number of repeated targets so far; None if they are not counted."""
        return self._duplicates.found

    @property
    def without_text(self) -> dict[str, int]:
        """Return the accepted targets by their languages that have no text in the message, the most first."""
        return {} if self._check is None else dict(self._check.without_text.most_common())

    def accepted(self, unit: int) -> Generator[Accepted, None, None]:
        """Yield good targets in the audience's order, a multiple of `unit` at a time where possible.

        Close the generator when done; exceptions of the audience pass through. The first good target of an iterable
        comes alone, at once.
        """
        slabs = slabs_of(self._audience, unit, begun=self._begin, bursts=lambda items: self._bursts(items, unit))
        self.working.acquire()
        try:
            while (slab := self._next(slabs)) is not None:
                taken, self._filling = self._filling.taken if self._filling else 0, None
                accepted = self._checked(slab, taken)
                if accepted.addresses:
                    self._any = True
                    yield accepted
        finally:
            self.working.release()

    def awaited_s(self) -> float:
        """Return how long the audience has been awaited. Call this with `working` held."""
        return self._clock_s() - self._awaited_since_s

    def early(self) -> Accepted | None:
        """Return the items of a slab that is being filled. Call this with `working` held."""
        filling = self._filling
        if filling is None:
            return None
        items, first = filling.slab.items[filling.taken :], filling.taken
        filling.taken += len(items)
        accepted, refusals = check_slab(items, lambda i: filling.slab.line_of(first + i), self._check, self._form)
        self._late += refusals
        accepted = self._kept(accepted)
        return accepted if accepted.addresses else None

    def _bursts(self, audience: Iterable[object], unit: int) -> Iterator[Iterable[object]]:
        """Yield items one by one up to the first good target, then up to whole envelopes, then the rest."""
        items, count = iter(audience), 0
        while not self._any and (each := list(islice(items, 1))):
            yield each
            count += 1
        yield islice(items, -count % unit)
        yield items

    def _begin(self, slab: Slab) -> None:
        self._filling = _Filling(slab)

    def _next(self, slabs: Iterator[Slab]) -> Slab | None:
        self._awaited_since_s = self._clock_s()
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
        items = slab.items[taken:] if taken else slab.items
        accepted, refusals = check_slab(items, lambda i: slab.line_of(taken + i), self._check, self._form)
        if refusals:
            self._on_refusals(refusals)
        return self._kept(accepted)

    def _kept(self, accepted: Accepted) -> Accepted:
        """Return the targets without duplicates, with their languages noted."""
        kept = self._duplicates(accepted)
        if self._check is not None:
            self._check.note_languages(kept.variables)
        return kept
