"""Cut an audience into windows, the units that are announced before they are published.

Find the windows of an earlier submission again, and check that the audience is the same up to their ends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dispatcher.model.errors import AudienceMismatch
from dispatcher.wire.submission import Submission
from producers.ports import WindowPace
from producers.submit.cutter import Block, Cutter
from producers.submit.validation import Accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Consecutive targets of an audience, encoded as envelopes. They are published together."""

    bodies: list[list[bytes]]
    """The encoded envelopes, in parts; the last envelope may be short."""
    first: int
    """The number of targets before the window."""
    first_sequence: int
    """The number of envelopes before the window."""
    targets: int
    """The number of targets up to the end of the window."""
    refused: int
    """The number of refused targets up to the end of the window."""
    sequence: int
    """The number of envelopes up to the end of the window."""
    digest: str
    """The digest of all targets up to the end of the window."""
    announced: bool
    """Whether the control topic already has the window."""


class WindowCutter:
    """Turns accepted targets into windows.

    Targets confirmed by an earlier submission are skipped. Its later windows come first, at the same ends. All methods
    raise AudienceMismatch as soon as a digest differs, InvalidInput if there are too many envelopes.
    """

    def __init__(
        self,
        chunk: int,
        known: Submission,
        pace: WindowPace,
        encode: Callable[[Block], list[bytes]],
        refused: Callable[[], int],
        clock_s: Callable[[], float],
    ) -> None:
        """known: the submission of an unsealed task. refused: targets refused so far.

        encode: makes the envelopes of a block at once: encoding targets right after checking them is a tenth faster.
        """
        self._task = known.record.task
        self._known = known
        self._ends = {end.targets: end.digest for end in known.ahead.ends}
        self._stored = max(known.published, *self._ends, 0)
        """Targets that an earlier submission stored or announced."""
        self._trial = known.record.first if known.record.first > known.published else 0
        """Targets of a trial send that is not published yet. A window ends there, and all envelopes before are full:
        the ledger knows them by their sequences."""
        self._cutter = Cutter(chunk, [known.published, *self._ends, self._trial])
        self._pace = pace
        self._encode = encode
        self._refused = refused
        self._clock_s = clock_s
        self._bodies: list[list[bytes]] = []
        self._bytes = 0
        self._first = known.published
        self._first_sequence = known.sequences
        self._limit = pace.first_targets
        self._closed_s = clock_s()
        self._check_end()

    @property
    def targets(self) -> int:
        """Number of targets in whole envelopes so far, including those skipped."""
        return self._cutter.targets

    @property
    def sequence(self) -> int:
        return self._cutter.sequence

    @property
    def digest(self) -> str:
        return self._cutter.digest()

    def add(self, accepted: Accepted) -> Iterator[Window]:
        """Take targets in; yield the windows that are complete."""
        for block in self._cutter.add(accepted):
            yield from self._take(block)

    def age_s(self) -> float:
        """Return how long ago the last window ended."""
        return self._clock_s() - self._closed_s

    def may_close(self) -> bool:
        """Return whether the last window ended long enough ago to close one while the audience is awaited."""
        return self.age_s() >= self._pace.shortest_s

    def close_early(self) -> Iterator[Window]:
        """Yield a short window of the targets so far, if there are any."""
        if self._cutter.targets < self._stored:
            return
        if self._cutter.targets >= self._trial:
            for block in self._cutter.rest():
                self._keep(block)
        if self._bodies:
            yield self._close()

    def cut_off(self) -> Window | None:
        """Close the current window, in whole envelopes."""
        return self._close() if self._bodies else None

    def end(self) -> Iterator[Window]:
        """Yield the last windows at the end of the audience."""
        for block in self._cutter.rest():
            yield from self._take(block)
        if self._cutter.targets < self._stored:
            raise other_audience(self._task, f"its first {self._stored:,} targets")
        if self._bodies:
            yield self._close()

    def _take(self, block: Block) -> Iterator[Window]:
        targets = self._cutter.targets
        if targets <= self._known.published:
            self._check_end()
            return
        self._keep(block)
        if targets in self._ends:
            self._check_end()
            yield self._close(announced=True)
        elif targets == self._trial or (targets >= self._stored and self._is_full()):
            yield self._close()

    def _keep(self, block: Block) -> None:
        encoded = self._encode(block)
        self._bodies.append(encoded)
        self._bytes += len(encoded) * len(encoded[0])

    def _check_end(self) -> None:
        """Compare the digest at the end of confirmed or announced targets."""
        targets, known = self._cutter.targets, self._known
        stored = {**self._ends, known.published: known.digest} if known.published else self._ends
        if targets in stored and self._cutter.digest() != stored[targets]:
            raise other_audience(self._task, f"its first {targets:,} targets")
        if targets == known.published:
            self._cutter.sequence = known.sequences

    def _is_full(self) -> bool:
        targets, envelopes = self._cutter.targets - self._first, self._cutter.sequence - self._first_sequence
        is_large = envelopes >= self._pace.envelopes or self._bytes >= self._pace.bytes
        return targets >= self._limit or is_large or self.age_s() >= self._pace.longest_s

    def _close(self, *, announced: bool = False) -> Window:
        cutter, encoded = self._cutter, self._bodies
        window = Window(
            bodies=encoded,
            first=self._first,
            first_sequence=self._first_sequence,
            targets=cutter.targets,
            refused=self._refused(),
            sequence=cutter.sequence,
            digest=cutter.digest(),
            announced=announced,
        )
        self._bodies, self._bytes, self._first, self._first_sequence = [], 0, cutter.targets, cutter.sequence
        self._limit = self._pace.targets
        self._closed_s = self._clock_s()
        return window


def other_audience(task: str, what: str) -> AudienceMismatch:
    """Return the error for an audience that differs from the one submitted before."""
    return AudienceMismatch(
        f"Task {task} was submitted before with another audience: {what} differ.",
        "Submit the same audience in the same order to go on with it, or choose another id.",
    )
