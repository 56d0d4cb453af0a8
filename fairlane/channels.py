"""The interface for authors of channels, with the types that a channel receives and returns.

Implement BatchChannel, or BlockingChannel if the client of the provider blocks.
"""

from typing import TYPE_CHECKING

from fairlane.public_names import public_module

if TYPE_CHECKING:
    from consumers.delivery.channels.blocking import BlockingChannel
    from dispatcher.ports import BatchChannel
    from dispatcher.wire.envelope import Envelope
    from dispatcher.wire.outcome import ALL_SENT, RETRY, SENT, UNKNOWN, UNSENT, Outcome, Report, Verdict

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


_HOMES = dict.fromkeys(__all__, "dispatcher.wire.outcome") | {
    "BatchChannel": "dispatcher.ports",
    "BlockingChannel": "consumers.delivery.channels.blocking",
    "Envelope": "dispatcher.wire.envelope",
}

if not TYPE_CHECKING:  # type checkers report a name that is not listed above
    __getattr__, __dir__ = public_module(__name__, __all__, _HOMES)
