"""For authors of channels: BatchChannel or, if its client blocks, BlockingChannel; and what they are given
and return."""

import warnings
from typing import TYPE_CHECKING

from fairlane.lazy import public_name

if TYPE_CHECKING:
    from consumers.delivery.channels.blocking import BlockingChannel
    from dispatcher.ports import BatchChannel
    from dispatcher.wire.envelope import Envelope
    from dispatcher.wire.outcome import ALL_SENT, RETRY, SENT, Outcome, Report, Verdict

    Channel = BatchChannel  # its name in 0.2, for one release

__all__ = [
    "ALL_SENT",
    "RETRY",
    "SENT",
    "BatchChannel",
    "BlockingChannel",
    "Envelope",
    "Outcome",
    "Report",
    "Verdict",
]


if not TYPE_CHECKING:  # to type checkers, a name that is not above does not exist

    def __getattr__(name: str) -> object:
        """Import a public name from where it is defined. `Channel` is the name that BatchChannel had in 0.2."""
        if name == "Channel":
            from dispatcher.public_names import Moved

            text = "fairlane.channels.Channel goes in the next release: use fairlane.channels.BatchChannel."
            warnings.warn(text, Moved, stacklevel=2)
            name = "BatchChannel"
        return public_name(__name__, name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
