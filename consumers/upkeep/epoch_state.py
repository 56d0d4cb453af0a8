"""The epoch, as the jobs that are done for all see it."""

from typing import Protocol


class EpochState(Protocol):
    """The epoch as stored. started_ms: Redis' time. wait_ms: until the longest claim made before it has ended (0: it
    has)."""

    @property
    def id(self) -> str: ...
    @property
    def started_ms(self) -> int: ...
    @property
    def ready(self) -> bool: ...
    @property
    def announced(self) -> bool: ...
    @property
    def marked(self) -> bool: ...
    @property
    def restoring(self) -> bool: ...
    @property
    def wait_ms(self) -> int: ...
    @property
    def claim_ms(self) -> int:
        """The longest claim that workers are known to make."""
        ...

    @property
    def address(self) -> str:
        """Where the view is; empty in one of 0.2."""
        ...

    @property
    def adopted(self) -> bool:
        """Whether the installation moves here from another Redis."""
        ...

    @property
    def broken(self) -> str:
        """The error with which a script failed half-way; empty if none did."""
        ...

    @property
    def foreign(self) -> str:
        """Address of another Redis that holds the view of this installation; empty if this one does."""
        ...
