"""Tell from the control topic which Redis holds the view of an installation, and what was before the present view."""

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple, Protocol

from dispatcher.model.errors import Malformed, Refused
from dispatcher.wire.control import NO_EPOCH, EpochStarted
from dispatcher.wire.control_checks import read_control

_EPOCH_TAG = b"\xa1b"
"""How an EpochStarted is told from other records before it is decoded: behind the header of a short array."""

_BATCH, _READ_S = 1_000, 1.0


class Stored(Protocol):
    @property
    def body(self) -> bytes: ...


class Reader(Protocol):
    """Reads the control topic. Raises Unreachable."""

    def read(self, max_records: int, timeout_s: float) -> Sequence[Stored]: ...

    def at_end(self) -> bool: ...

    def close(self) -> None: ...


class EarlierViews(NamedTuple):
    """What the control topic knows of views other than the present one."""

    epochs: bool = False
    """Whether there was one."""
    address: str = ""
    """Where the last was; empty if that is not known, or it is the present one."""
    claim_ms: int = 0
    """The longest claim that any worker made."""

    def and_then(self, body: bytes, epoch: str) -> "EarlierViews":
        """Return what is known with one more record. An unreadable one may belong to an earlier view: its claims are
        then waited for."""
        if self.epochs and body[1:3] != _EPOCH_TAG:
            return self
        try:
            _, record = read_control("", body)
        except Malformed:
            return self._replace(epochs=True)
        if not isinstance(record, EpochStarted):
            return self
        address = self.address
        if record.address:
            address = "" if _view_of(record.epoch) == _view_of(epoch) else record.address
        epochs = self.epochs or record.epoch not in (epoch, NO_EPOCH)
        return EarlierViews(epochs, address, max(self.claim_ms, record.claim_ms))

    def is_elsewhere(self, address: str) -> bool:
        """Return whether another Redis than the one at this address holds the view."""
        return self.address not in ("", address)


def read_views(reader: Reader, epoch: str) -> EarlierViews:
    """Read to the end of the control topic, and close the reader. epoch: the present view. Raises Unreachable."""
    found = EarlierViews()
    with closing(reader):
        while not reader.at_end():
            for stored in reader.read(_BATCH, _READ_S):
                found = found.and_then(stored.body, epoch)
    return found


def held_elsewhere(home: str, address: str) -> Refused:
    """Return the error of a Redis at `address` while the one at `home` holds the view."""
    return Refused(
        f"The view of this installation is in another Redis, {home}. This one is {address}.",
        "Correct redis.url; if the view is to be here from now on, run `fairlane registry adopt`.",
    )


def _view_of(epoch: str) -> str:
    """Return the view's name without the run of Redis (backends/redis/lua/view/note_restart.lua)."""
    return epoch.partition(".")[0]
