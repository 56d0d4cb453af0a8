"""Find out from the control topic which Redis holds the view of an installation, and which views came before it."""

import re
from typing import NamedTuple

from dispatcher.model.errors import Malformed, Refused
from dispatcher.ports import RecordReader, records_to_end
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import NO_EPOCH, EpochStarted

_NUMBER = re.compile(r"\.(\d{1,15})-")
_EPOCH_TAG = b"\xa1b"
"""Identifies an EpochStarted before it is decoded. It follows the header of a short array."""


class EarlierViews(NamedTuple):
    """Facts in the control topic about views other than the current one."""

    epochs: bool = False
    """Whether there was one."""
    address: str = ""
    """Address of the last one; empty if it is unknown or the current one."""
    claim_ms: int = 0
    """The longest claim of any worker."""
    number: int = 0
    """The highest number of an announcement of the current view, from before its last restart or failover."""

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
        is_earlier = record.epoch != epoch and _view_of(record.epoch) == _view_of(epoch)
        return EarlierViews(
            epochs=epochs,
            address=address,
            claim_ms=max(self.claim_ms, record.claim_ms),
            number=max(self.number, number_of(record.epoch)) if is_earlier else self.number,
        )

    def is_elsewhere(self, address: str) -> bool:
        """Return whether a Redis at another address holds the view."""
        return self.address not in ("", address)


def read_views(reader: RecordReader, epoch: str) -> EarlierViews:
    """Read the control topic to its end and close the reader. `epoch` is the current view. Raises Unreachable."""
    views = EarlierViews()
    for stored in records_to_end(reader):
        views = views.and_then(stored.body, epoch)
    return views


def held_elsewhere(home: str, address: str) -> Refused:
    """Return the error for a Redis at `address` while the one at `home` holds the view."""
    return Refused(
        f"The view of this installation is in another Redis, {home}. This one is {address}.",
        "Correct redis.url; to move the view here, run `fairlane registry adopt`.",
    )


def number_of(epoch: str) -> int:
    """Return the number of restarts and failovers in the id of an epoch (backends/redis/lua/view/view_run.lua)."""
    number = _NUMBER.search(epoch)
    return int(number[1]) if number else 0


def renumbered(epoch: str, number: int) -> str:
    """Return the id of an epoch with this number."""
    return f"{_view_of(epoch)}.{number}-{''.join(_NUMBER.split(epoch, 1)[2:])}"


def _view_of(epoch: str) -> str:
    """Return the view's name without the run of Redis (backends/redis/lua/view/view_run.lua)."""
    return epoch.partition(".")[0]
