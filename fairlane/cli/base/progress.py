"""Progress of commands, on stderr."""

import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager

from dispatcher.model.task import PushTask
from dispatcher.model.values import duration
from dispatcher.model.view import TaskView
from fairlane.screen.progress import progress_lines
from producers.client import Audience
from producers.submit.report import SubmitProgress


@contextmanager
def submission(task: PushTask, audience: Audience) -> Iterator[Callable[[SubmitProgress], None]]:
    """Yield the function to pass as `on_progress`; without a terminal nothing is shown."""
    with progress_lines() as bar:
        line = bar.add_task(f"submitting {task.id or 'task'}", total=None, figures="")

        def show(progress: SubmitProgress) -> None:
            part = _part_done(task, audience, progress.accepted)
            total = None if part is None else 1.0
            bar.update(line, completed=part or 0.0, total=total, figures=submitted(progress, part))

        yield show


def submitted(progress: SubmitProgress, part: float | None) -> str:
    """Return the progress as text: `162,400 targets, 45%, 210,000/s`. `part`: of the audience; None: not known."""
    rate = progress.accepted / progress.seconds if progress.seconds > 0 else 0
    parts = [f"{progress.accepted:,} targets", f"{rate:,.0f}/s"]
    if part is not None:
        parts.insert(1, f"{part:.0%}")
    return ", ".join(parts)


def _part_done(task: PushTask, audience: Audience, accepted: int) -> float | None:
    """Return the part done: of a file's bytes, of a list's targets or of the expected targets."""
    part: float | None = getattr(audience, "part_read", None)
    expected = len(audience) if isinstance(audience, Sized) else task.expected_targets
    if part is None and expected:
        part = accepted / expected
    return None if part is None else min(part, 1.0)


@contextmanager
def changing(what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """Show how many have been changed. Yield the function to call with the number done and the total."""
    with progress_lines() as bar:
        line = bar.add_task(f"changing {what}", total=total, figures="")
        yield lambda done, of: bar.update(line, completed=done, total=of, figures=f"{done:,} of {of:,}")


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """Yield the function to call with the number that is left."""
    with progress_lines(has_bar=False) as bar:
        line = bar.add_task(what, figures="")
        yield lambda left: bar.update(line, description=f"{left:,} {what}")


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Show on a terminal what is being done, without its progress."""
    with progress_lines(has_bar=False) as bar:
        bar.add_task(what, figures="")
        yield


@contextmanager
def replaying() -> Iterator[Callable[[str, int, int], None]]:
    """Yield the function to call with the task, the number of its targets submitted, and their number."""
    with progress_lines() as bar:
        line = bar.add_task("marking dead letters", total=None, figures="")

        def show(task: str, done: int, total: int) -> None:
            bar.update(line, description=task, completed=done, total=total, figures=f"{done:,} of {total:,} targets")

        yield show


@contextmanager
def waiting(task: str) -> Iterator[Callable[[TaskView], None]]:
    """Yield the function to pass as `on_progress` to the handle's `wait`."""
    with progress_lines() as bar:
        line = bar.add_task(f"waiting for {task}", total=None, figures="")

        def show(view: TaskView) -> None:
            done = view.targets.total - view.targets.pending
            figures = f"{view.state}  {view.targets.done}  {view.rate:,.0f}/s  ETA {duration(view.eta_s)}"
            bar.update(line, total=view.targets.total or None, completed=done, figures=figures)

        yield show


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Yield a function to call at the start of each step; a terminal also shows the elapsed seconds."""
    live, began = progress_lines(has_bar=False), time.monotonic()
    console = live.console

    def step(message: str) -> None:
        console.print(f"[{time.monotonic() - began:5.1f} s] {message}", markup=False)
        if console.is_terminal:
            live.update(running, description=message)

    if not console.is_terminal:
        yield step
        return
    with live:
        running = live.add_task("", figures="")
        yield step
