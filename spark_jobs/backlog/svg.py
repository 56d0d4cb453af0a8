"""Draw parts of pictures as SVG, legible on light and dark backgrounds; each picture carries its content in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape

from dispatcher.model.shown import escaped

WIDTH, LEFT, RIGHT, TOP = 860, 64, 16, 46
BOTTOM = 40
_LINES = (16.0, 31.0)
"""The tops of the lines of a legend."""
STYLE = """
.ground{fill:#fff}.ink{fill:#1c2430}.soft{fill:#5b6675}.line{stroke:#d5dbe3}.axis{stroke:#8b95a3}.mark{stroke:#1c2430}
.gap{fill:#8b95a3;opacity:.16}.heat{fill:#c8385a}
.c0{fill:#c8385a}.c1{fill:#e0a030}.c2{fill:#1f8a9c}.c3{fill:#6d55c4}.c4{fill:#4a9a4f}.c5{fill:#a8663b}.c6{fill:#3f70c8}
.c7{fill:#8a8f98}
.s0{stroke:#c8385a}.s1{stroke:#b87a10}.s2{stroke:#1f8a9c}.s3{stroke:#6d55c4}.s4{stroke:#3f8a44}.s5{stroke:#a8663b}
.s6{stroke:#3f70c8}.s7{stroke:#757b85}
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif}.small{font-size:12px}path.curve{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){.ground{fill:#141a22}.ink{fill:#eef2f7}.soft{fill:#a5b0bf}.line{stroke:#2d3744}
.axis{stroke:#6b7788}.mark{stroke:#eef2f7}.gap{fill:#6b7788}.heat{fill:#f0708d}
.c0{fill:#e8607f}.c1{fill:#eebb5c}.c2{fill:#3fb2c4}.c3{fill:#9a86e6}.c4{fill:#6cc072}.c5{fill:#c98a5f}.c6{fill:#6f9bea}
.c7{fill:#a7adb7}
.s0{stroke:#e8607f}.s1{stroke:#eebb5c}.s2{stroke:#3fb2c4}.s3{stroke:#9a86e6}.s4{stroke:#6cc072}.s5{stroke:#c98a5f}
.s6{stroke:#6f9bea}.s7{stroke:#a7adb7}}
"""
TIER_COLOURS = {"high": 0, "medium": 1, "low": 2}
DASHES = ("", "7 4", "2 3", "10 3 2 3", "", "7 4", "2 3", "10 3 2 3")
"""Dash patterns tell curves apart without their colours."""
_TIME_STEPS_S = (1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800)

Line = Sequence[float | None]


@dataclass(frozen=True)
class Frame:
    """An area for curves over time."""

    times_ms: Sequence[int]
    """The times of the curves' points."""
    most: float
    """The highest value."""
    top: float = TOP
    """In pixels, as is height."""
    height: float = 230
    left: float = LEFT

    def x(self, at_ms: float) -> float:
        first, last = self.times_ms[0], self.times_ms[-1]
        part = (at_ms - first) / (last - first) if last > first else 0.5
        return self.left + (WIDTH - self.left - RIGHT) * min(1.0, max(0.0, part))

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.most)

    def area(self, lows: Sequence[float], tops: Sequence[float]) -> str:
        """Return a path along the tops and back along the lows."""
        there = [f"{self.x(at):.1f} {self.y(top):.1f}" for at, top in zip(self.times_ms, tops, strict=True)]
        back = [f"{self.x(at):.1f} {self.y(low):.1f}" for at, low in zip(self.times_ms, lows, strict=True)]
        return f"M{'L'.join([*there, *reversed(back)])}Z" if there else ""

    def curve(self, values: Line) -> str:
        """Return a path with a break where nothing is known."""
        parts: list[str] = []
        pen = "M"
        for at_ms, value in zip(self.times_ms, values, strict=True):
            if value is None:
                pen = "M"
                continue
            parts.append(f"{pen}{self.x(at_ms):.1f} {self.y(value):.1f}")
            pen = "L"
        return "".join(parts)

    def grid(self, about: int = 4) -> Iterator[str]:
        """Yield horizontal lines at round values, with the values."""
        for value in ticks(self.most, about):
            y = self.y(value)
            yield f'<path class="line" d="M{self.left} {y:.1f}H{WIDTH - RIGHT}"/>'
            yield text(self.left - 8, y + 4, short(value), "soft small", "end")

    def gaps(self, gaps: Sequence[tuple[int, int]]) -> Iterator[str]:
        """Yield marks for the time spans about which nothing is known."""
        for from_ms, until_ms in gaps:
            left, right = self.x(from_ms), self.x(until_ms)
            yield (
                f'<rect class="gap" x="{left:.1f}" y="{self.top}" width="{max(1.0, right - left):.1f}" '
                f'height="{self.height}"><title>no snapshots</title></rect>'
            )

    def time_axis(self) -> Iterator[str]:
        y = self.top + self.height
        yield f'<path class="axis" d="M{self.left} {y:.1f}H{WIDTH - RIGHT}"/>'
        for at_ms, label in time_ticks(self.times_ms[0], self.times_ms[-1]):
            yield from tick(self.x(at_ms), y, label)


def legend(names: Sequence[tuple[str, int]], unit: str) -> Iterator[str]:
    """Draw a legend. names: each with the number of its colour; as many as fit in two lines above a frame."""
    x, y, end = float(LEFT), _LINES[0], WIDTH - RIGHT - 7.0 * len(unit) - 30
    yield text(WIDTH - RIGHT, y + 10.5, unit, "soft small", "end")
    for place, (whole, colour) in enumerate(names):
        name = cut(whole)
        if x + 17 + 7.4 * len(name) > end and y == _LINES[0]:
            x, y, end = float(LEFT), _LINES[1], WIDTH - RIGHT - 30.0
        if x + 17 + 7.4 * len(name) > end:
            yield text(x, y + 10.5, f"+{len(names) - place}", "soft small")
            break
        yield f'<rect class="c{colour}" x="{x:.0f}" y="{y:g}" width="12" height="12" rx="2"/>'
        yield text(x + 17, y + 10.5, name, "ink")
        x += 17 + 7.4 * len(name) + 18


def tick(x: float, y: float, label: str) -> Iterator[str]:
    """Draw a mark on the time axis and its label, which stays within the picture."""
    yield f'<path class="axis" d="M{x:.1f} {y:.1f}v4"/>'
    close = x > WIDTH - RIGHT - 4 * len(label)
    yield text(WIDTH - RIGHT if close else x, y + 18, label, "soft small", "end" if close else "middle")


def text(x: float, y: float, content: str, classes: str, anchor: str = "start") -> str:
    return f'<text class="{classes}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(escaped(content))}</text>'


def cut(name: str) -> str:
    """Shorten a name for a picture. Its end is kept: the ids of one app's tasks differ there."""
    return name if len(name) <= 17 else f"{name[:8]}…{name[-8:]}"


def document(name: str, title: str, words: str, height: float, body: Sequence[str], style: str = STYLE) -> str:
    """Return a picture as an SVG document.

    name: unique among the pictures of the page. words: a description for readers who cannot see it.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" '
        f'role="img" aria-labelledby="{name}-title {name}-words">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n<desc id="{name}-words">{escape(words)}</desc>\n'
        f"<style>{style}</style>\n"
        f'<rect class="ground" width="{WIDTH}" height="{height:g}" rx="6"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def ticks(most: float, about: int) -> list[float]:
    """Return about `about` round numbers above 0 and up to `most`."""
    step = 10.0**-3
    while True:
        for factor in (1, 2, 5):
            if most / (step * factor) <= about:
                wide = step * factor
                return [round(wide * place, 6) for place in range(1, int(most / wide) + 1)]
        step *= 10


def time_ticks(first_ms: int, last_ms: int, about: int = 8) -> list[tuple[int, str]]:
    """Return round times (UTC) with their labels: the time of day, or the date at midnight."""
    span_s = max(1.0, (last_ms - first_ms) / 1000)
    step = next((step for step in _TIME_STEPS_S if span_s / step <= about), _TIME_STEPS_S[-1])
    first = datetime.fromtimestamp(first_ms / 1000, UTC)
    at = first.replace(hour=0, minute=0, second=0, microsecond=0)
    found: list[tuple[int, str]] = []
    at += timedelta(seconds=-(-((first - at).total_seconds()) // step) * step)
    while at.timestamp() * 1000 <= last_ms:
        seconds = "%H:%M:%S" if step < 60 else "%H:%M"
        label = f"{at:%d %b}" if (at.hour, at.minute, at.second) == (0, 0, 0) else f"{at:{seconds}}"
        found.append((int(at.timestamp() * 1000), label))
        at += timedelta(seconds=step)
    return found


def short(value: float) -> str:
    """Format a number in few characters: 950, 1.2k, 34M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
