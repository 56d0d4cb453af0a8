"""Moving output: progress lines and the live view fit the terminal, and their colours work on light and dark."""

from io import StringIO

import pytest
from rich.color import Color
from rich.console import Console, Group, RenderableType

from dispatcher.model.view import ENDED_STATES, STATES
from fairlane.screen.console import theme
from fairlane.screen.progress import FittedProgress, progress_lines
from fairlane.screen.render import screen
from fairlane.screen.sample import sample_of
from lab.demo.report import DemoResult, ShareMeter, closing_report
from tests.unit.dispatch.fairlane.test_screen import Service, task
from tests.unit.dispatch.fairlane.test_tables import BEATS, NEWS, SALE, drawn
from tests.virtual_clock import VirtualClock

MIN_CONTRAST = 3.0
"""That the accessibility guidelines (WCAG 2.1, 1.4.11) ask of what must be told apart."""
BACKGROUNDS = ((255, 255, 255), (0, 0, 0), (253, 246, 227), (30, 30, 30))
TIERS = ["high", "medium", "low"]


def luminance(color: tuple[int, int, int]) -> float:
    parts = [part / 255 for part in color]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(color: tuple[int, int, int], background: tuple[int, int, int]) -> float:
    nearly_empty, dark = sorted((luminance(color), luminance(background)), reverse=True)
    return (nearly_empty + 0.05) / (dark + 0.05)


def terminal() -> Console:
    return Console(file=StringIO(), width=120, force_terminal=True, color_system="truecolor", theme=theme())


def colors(shown: RenderableType) -> set[Color]:
    """Return the colours of everything drawn."""
    styles = [segment.style for segment in terminal().render(shown) if segment.style is not None]
    return {style.color for style in styles if style.color is not None}


def live_view(height: int = 60) -> RenderableType:
    tasks = [
        task(f"task-{state}", tier, state=state, finished_ms=int(state in ENDED_STATES))
        for state, tier in zip(STATES, TIERS * 3, strict=False)
    ]
    settings = Service(BEATS, [SALE, NEWS, *tasks], frozenset({"push"}))
    return screen(sample_of(settings, VirtualClock()), "Fairlane", ["worker-3 joins"], height)


def line(name: str, completed: float = 40) -> FittedProgress:
    lines = progress_lines()
    assert isinstance(lines, FittedProgress)
    figures = "running  60,000 of 5,000,000  1,800/s  ETA 2 h 01 m"
    lines.add_task(f"waiting for {name}", total=100, completed=round(completed), figures=figures)
    return lines


def test_colours_are_legible_on_a_light_and_on_a_dark_terminal() -> None:
    done, failed = task("done", sent=10, state="completed", finished_ms=5), task("open", sent=4)
    reports = [closing_report(DemoResult([one], {one.id: 10}, [], ShareMeter(), 12.0)) for one in (done, failed)]
    shown = Group(live_view(), *reports, *(line("big", part) for part in (0, 40, 100)))
    found = colors(shown)
    assert len(found) >= 4
    for color in found:
        assert color.triplet is not None, f"{color.name} is whatever the terminal makes of it"
        assert min(contrast(color.triplet, background) for background in BACKGROUNDS) >= MIN_CONTRAST, color.name


@pytest.mark.parametrize("name", ["big", "x" * 64])
@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_line_of_progress_is_never_cut(width: int, name: str) -> None:
    shown = "\n".join(drawn(Group(*line(name).get_renderables()), width))
    for text in (name, "60,000", "5,000,000", "1,800/s", "2 h 01 m", "━━━━"):
        assert text in shown
    assert "…" not in shown


def test_the_live_view_fits_its_height_and_shows_what_still_runs() -> None:
    lines = drawn(live_view(24), 100)
    assert len(lines) <= 24
    assert any("and 2 more" in line for line in lines)
    for state in STATES:
        assert state in ENDED_STATES or any(f"task-{state}" in line for line in lines)
    assert sum("task-" in line for line in drawn(live_view(60), 100)) == len(STATES)
