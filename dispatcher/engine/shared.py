"""Objects that the parts of an engine share."""

from dataclasses import dataclass

from dispatcher.analysis.send_errors import SendErrors
from dispatcher.clock import Clock
from dispatcher.engine.events import Inbox
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.stats import EngineStats
from dispatcher.engine.timers import Timers
from dispatcher.scheduling.shared_bound import SharedBound


@dataclass(frozen=True)
class Shared:
    """One object of each kind for the whole engine."""

    settings: EngineSettings
    clock: Clock
    timers: Timers
    inbox: Inbox
    stats: EngineStats
    errors: SendErrors
    unsettled: SharedBound
    """Targets that are sent, or need no sending, and are not yet settled."""
    held: SharedBound
    """Targets that wait for an answer other than HELD, or for their outcome topic."""
