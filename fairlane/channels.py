"""The interface for authors of channels, with the types that a channel receives and returns.

Implement BatchChannel, or BlockingChannel if the client of the provider blocks.
"""

import warnings
from typing import TYPE_CHECKING

from fairlane.lazy import public_name

if TYPE_CHECKING:
    from consumers.delivery.channels.blocking import BlockingChannel
    from dispatcher.ports import BatchChannel
    from dispatcher.wire.envelope import Envelope
    from dispatcher.wire.outcome import ALL_SENT, RETRY, SENT, UNKNOWN, UNSENT, Outcome, Report, Verdict

    Channel = BatchChannel  # its name in 0.2, kept for one release

__all__ = [
    "ALL_SENT",
    "RETRY",
    "SENT",
    "UNKNOWN",
    "UNSENT",
    "BatchChannel",
    "BlockingChannel",
    "Envelope",
    "Outcome",
    "Report",
    "Verdict",
]


if not TYPE_CHECKING:  # type checkers report a name that is not listed above

    def __getattr__(name: str) -> object:
        """Import a public name from where it is defined. `Channel` is the name that BatchChannel had in 0.2."""
        if name == "Channel":
            from dispatcher.public_names import Moved

            text = "fairlane.channels.Channel goes in the next release: use fairlane.channels.BatchChannel."
            warnings.warn(text, Moved, stacklevel=2)
            name = "BatchChannel"
        return public_name(__name__, name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
