"""What the parts of an engine have in common."""

from dataclasses import dataclass

from dispatcher.clock import Clock
from dispatcher.engine_settings import EngineSettings
from dispatcher.engine_stats import EngineStats
from dispatcher.events import Inbox
from dispatcher.send_errors import SendErrors
from dispatcher.shared_bound import SharedBound
from dispatcher.timers import Timers


@dataclass(frozen=True)
class Shared:
    """One of each for the whole engine."""

    settings: EngineSettings
    clock: Clock
    timers: Timers
    inbox: Inbox
    stats: EngineStats
    errors: SendErrors
    unsettled: SharedBound
    """Targets sent, or in need of no sending, and not yet settled."""
    held: SharedBound
    """Targets that wait for an answer other than HELD, or for their outcome topic."""
