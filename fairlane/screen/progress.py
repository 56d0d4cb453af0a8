"""Progress lines on the terminal: spinner, description, bar, figures, clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fairlane.screen.console import console_of
from fairlane.screen.fields import Kind
from fairlane.screen.table import FittedTable

_HEAD = (("", Kind.FIGURE), ("what", Kind.TEXT))
_TAIL = (("bar", Kind.BAR), ("figures", Kind.FIGURE), ("clock", Kind.FIGURE))


def progress_lines(*, has_bar: bool = True) -> Progress:
    """Return progress lines on stderr that show `description` and each task's field `figures`.

    Nothing is shown without a terminal.
    """
    console = console_of(stderr=True)
    bars = (BarColumn(),) if has_bar else ()
    texts = [TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[figures]")]
    columns = (SpinnerColumn(), texts[0], *bars, texts[1], TimeElapsedColumn())
    return FittedProgress(*columns, console=console, transient=True, disable=not console.is_terminal)


class FittedProgress(Progress):
    """Draws lines in which nothing is cut: the bar shrinks first, then the figures move to their own line."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            if task.visible:
                yield _Line([column(task) if callable(column) else column for column in self.columns])


@dataclass(frozen=True)
class _Line:
    cells: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tail = _TAIL[-(len(self.cells) - len(_HEAD)) :]
        table = FittedTable((*_HEAD, *tail), [self.cells], has_header=False)
        if table.has_room(console, options):
            yield table
            return
        yield FittedTable(_HEAD, [self.cells[:2]], has_header=False)
        yield FittedTable(tail, [self.cells[2:]], ("bar", "clock"), has_header=False)
