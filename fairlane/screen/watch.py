"""Shows samples as they arrive: a live screen on a terminal, lines elsewhere."""

from rich.console import Console
from rich.live import Live

from fairlane.screen.render import line, screen
from fairlane.screen.sample import Sample

LINE_EVERY_S = 2.0


class Watch:
    """A context manager whose `show` draws one sample, and each new note once."""

    def __init__(self, console: Console, title: str = "Fairlane demo", line_every_s: float = LINE_EVERY_S) -> None:
        self._console = console
        self._line_every_s = line_every_s
        self._title = title
        self._live = Live(console=console, refresh_per_second=4, transient=False) if console.is_terminal else None
        self._last_line_s = float("-inf")
        self._notes_shown = set[str]()

    def __enter__(self) -> "Watch":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, sample: Sample, notes: list[str]) -> None:
        if self._live:
            self._live.update(screen(sample, self._title, notes, self._console.height))
            return
        for note in notes:
            if note not in self._notes_shown:
                self._console.print(f"· {note}", highlight=False)
        self._notes_shown.update(notes)
        if sample.at_s - self._last_line_s >= self._line_every_s:
            self._last_line_s = sample.at_s
            self._console.print(line(sample), highlight=False, soft_wrap=True)
