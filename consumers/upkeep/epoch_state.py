"""The epoch, in the form that the jobs done for all need."""

from typing import Protocol


class EpochState(Protocol):
    """The epoch as stored.

    started_ms: Redis' time. wait_ms: the time until the longest claim made before the epoch has ended; 0: it has ended.
    """

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
        """The address of the Redis that holds the view; empty in a view of 0.2."""
        ...

    @property
    def adopted(self) -> bool:
        """Whether the installation moves here from another Redis."""
        ...

    @property
    def broken(self) -> str:
        """The error with which a script failed midway; empty if none did."""
        ...

    @property
    def foreign(self) -> str:
        """The address of another Redis that holds this installation's view; empty if this one does."""
        ...
