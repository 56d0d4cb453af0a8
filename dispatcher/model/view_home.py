"""Find out from the control topic which Redis holds the view of an installation, and which views came before it."""

from contextlib import closing
from typing import NamedTuple

from dispatcher.model.errors import Malformed, Refused
from dispatcher.ports import RecordReader
from dispatcher.wire.control import NO_EPOCH, EpochStarted
from dispatcher.wire.control_checks import read_control

_EPOCH_TAG = b"\xa1b"
"""Identifies an EpochStarted before it is decoded. It follows the header of a short array."""

_BATCH, _READ_S = 1_000, 1.0


class EarlierViews(NamedTuple):
    """Facts in the control topic about views other than the current one."""

    epochs: bool = False
    """Whether there was one."""
    address: str = ""
    """Address of the last one; empty if it is unknown or the current one."""
    claim_ms: int = 0
    """The longest claim of any worker."""

    def and_then(self, body: bytes, epoch: str) -> "EarlierViews":
        """Return these facts with those of one more record. An unreadable record may belong to an earlier view, so its
        claims must end too."""
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
        """Return whether a Redis at another address holds the view."""
        return self.address not in ("", address)


def read_views(reader: RecordReader, epoch: str) -> EarlierViews:
    """Read the control topic to its end and close the reader. `epoch` is the current view. Raises Unreachable."""
    views = EarlierViews()
    with closing(reader):
        while not reader.at_end():
            for stored in reader.read(_BATCH, _READ_S):
                views = views.and_then(stored.body, epoch)
    return views


def held_elsewhere(home: str, address: str) -> Refused:
    """Return the error for a Redis at `address` while the one at `home` holds the view."""
    return Refused(
        f"The view of this installation is in another Redis, {home}. This one is {address}.",
        "Correct redis.url; to move the view here, run `fairlane registry adopt`.",
    )


def _view_of(epoch: str) -> str:
    """Return the view's name without the run of Redis (backends/redis/lua/view/note_restart.lua)."""
    return epoch.partition(".")[0]
