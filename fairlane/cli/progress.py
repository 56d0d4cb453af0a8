"""How far a submission is, on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from dispatcher.task import PushTask
from dispatcher.view import TaskView
from fairlane.screen.render import seconds
from producers.submit_report import SubmitProgress


@contextmanager
def submission(task: PushTask) -> Iterator[Callable[[SubmitProgress], None]]:
    """Gives the function to pass as `on_progress`; where there is no terminal nothing is shown."""
    with _bar(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        line = bar.add_task(f"submitting {task.id or 'task'}", total=task.expected_targets)
        yield lambda progress: bar.update(line, completed=progress.accepted)


@contextmanager
def counted(what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Gives the function to tell how many of how many are done; where there is no terminal nothing is shown."""
    with _bar(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        line = bar.add_task(f"changing {what}", total=total)
        yield lambda done, of: bar.update(line, completed=done, total=of)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Gives the function to tell how many are left."""
    with _bar() as bar:
        line = bar.add_task(what)
        yield lambda left: bar.update(line, description=f"{left:,} {what}")


@contextmanager
def waiting(task: str) -> Iterator[Callable[[TaskView], None]]:
    """Gives the function to pass as `on_progress` to the handle's `wait`."""
    with _bar(BarColumn(), TextColumn("{task.fields[figures]}"), TimeElapsedColumn()) as bar:
        line = bar.add_task(f"waiting for {task}", total=None, figures="")

        def show(view: TaskView) -> None:
            done = view.targets.total - view.targets.pending
            figures = f"{view.state}  {done:,} of {view.targets.total:,}  {view.rate:,.0f}/s  ETA {seconds(view.eta_s)}"
            bar.update(line, total=view.targets.total or None, completed=done, figures=figures)

        yield show


def _bar(*columns: ProgressColumn) -> Progress:
    console, begin = Console(stderr=True), (SpinnerColumn(), TextColumn("{task.description}"))
    return Progress(*begin, *columns, console=console, transient=True, disable=not console.is_terminal)
