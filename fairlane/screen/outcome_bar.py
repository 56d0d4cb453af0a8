"""A bar of a task's targets: those sent, those that ended unsent, and the rest."""

from dataclasses import dataclass
from math import ceil

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from fairlane.screen.console import GREEN, RED

_LINE = "━"


@dataclass(frozen=True)
class OutcomeBar:
    """The bar: green for sent targets, red for those that ended unsent, of which a single one is visible."""

    sent: int
    not_sent: int
    total: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = options.max_width / max(self.total, 1)
        # Counts of a view that is rebuilt may not fit.
        red = min(max(0, ceil(self.not_sent * cells)), options.max_width)
        green = min(max(0, int(self.sent * cells)), options.max_width - red)
        yield Text.assemble((_LINE * green, GREEN), (_LINE * red, RED))
