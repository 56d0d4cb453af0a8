"""Draw pictures as SVG, legible on light and dark backgrounds, each with its content in words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape

from dispatcher.model.shown import escaped

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 860, 64, 16, 46, 40
ROW_LEFT = 130
"""The left edge of rows, which have their names before them."""
ROOM = 1.08
"""The height of a frame, as a multiple of its highest value."""
TIER_COLOURS = {"high": 0, "medium": 1, "low": 2}
OTHER_COLOUR = 7
_LINES = (16.0, 31.0)
"""The tops of the lines of a legend."""
_TIME_STEPS_S = (1, 5, 15, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800)
_TIME_TICKS = 9
_STYLE = """
.ground{fill:#fff}.ink{fill:#1c2430}.soft{fill:#5b6675}.line{stroke:#d5dbe3}.axis{stroke:#8b95a3}.mark{stroke:#1c2430}
.gap{fill:#8b95a3;opacity:.16}.heat{fill:#c8385a}
.c0{fill:#c8385a}.c1{fill:#e0a030}.c2{fill:#1f8a9c}.c3{fill:#6d55c4}.c4{fill:#4a9a4f}.c5{fill:#a8663b}.c6{fill:#3f70c8}
.c7{fill:#8a8f98}
.s0{stroke:#c8385a}.s1{stroke:#b87a10}.s2{stroke:#1f8a9c}.s3{stroke:#6d55c4}.s4{stroke:#3f8a44}.s5{stroke:#a8663b}
.s6{stroke:#3f70c8}.s7{stroke:#757b85}
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif}.small{font-size:12px}path.curve{fill:none;stroke-width:2}
.cell{shape-rendering:crispEdges}
@media(prefers-color-scheme:dark){.ground{fill:#141a22}.ink{fill:#eef2f7}.soft{fill:#a5b0bf}.line{stroke:#2d3744}
.axis{stroke:#6b7788}.mark{stroke:#eef2f7}.gap{fill:#6b7788}.heat{fill:#f0708d}
.c0{fill:#e8607f}.c1{fill:#eebb5c}.c2{fill:#3fb2c4}.c3{fill:#9a86e6}.c4{fill:#6cc072}.c5{fill:#c98a5f}.c6{fill:#6f9bea}
.c7{fill:#a7adb7}
.s0{stroke:#e8607f}.s1{stroke:#eebb5c}.s2{stroke:#3fb2c4}.s3{stroke:#9a86e6}.s4{stroke:#6cc072}.s5{stroke:#c98a5f}
.s6{stroke:#6f9bea}.s7{stroke:#a7adb7}}
"""

Points = Iterable[tuple[float, float | None]]
"""Times and values; the value is None where nothing is known."""


@dataclass(frozen=True)
class Band:
    """A layer of a stack: a value at each time."""

    name: str
    colour: int
    values: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class PlotArea:
    """The scales of a part of a picture. Its methods draw in these scales."""

    last: float
    """The time at the right edge."""
    first: float = 0.0
    """The time at the left edge."""
    maximum: float = 1.0
    """The value at the top edge."""
    marks: Sequence[tuple[float, str]] = ()
    """Times that the axis shows, with their labels."""
    top: float = TOP
    """In pixels, as are height, left and right."""
    height: float = 230
    left: float = LEFT
    right: float = WIDTH - RIGHT

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def picture_height(self) -> float:
        """Return the height of a picture with only a time axis below this frame."""
        return self.bottom + BOTTOM

    def x(self, at: float) -> float:
        part = (at - self.first) / (self.last - self.first) if self.last > self.first else 0.5
        return self.left + (self.right - self.left) * min(1.0, max(0.0, part))

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.maximum)

    def path(self, points: Points) -> str:
        """Return the data of a path, with a break where nothing is known."""
        parts: list[str] = []
        pen = "M"
        for at, value in points:
            if value is not None:
                parts.append(f"{pen}{self.x(at):.1f} {self.y(value):.1f}")
            pen = "M" if value is None else "L"
        return "".join(parts)

    def curve(self, points: Points, kind: str, dashes: str = "") -> str:
        return f'<path class="curve {kind}" stroke-dasharray="{dashes or "none"}" d="{self.path(points)}"/>'

    def area(self, corners: Points, colour: int, opacity: float = 1.0) -> str:
        return f'<path class="c{colour}" opacity="{opacity:g}" d="{self.path(corners)}Z"/>'

    def stack(self, times: Sequence[float], bands: Sequence[Band], unit: str) -> Iterator[str]:
        """Yield bands, each on top of those before it, and their legend."""
        yield from self.layers(times, bands)
        yield from legend([(band.name, band.colour) for band in bands], unit)

    def layers(self, times: Sequence[float], bands: Sequence[Band], opacity: float = 1.0) -> Iterator[str]:
        """Yield bands, each on top of those before it."""
        base = [0.0] * len(times)
        for band in bands if times else ():
            tops = [low + value for low, value in zip(base, band.values, strict=True)]
            back = list(zip(times, base, strict=True))[::-1]
            yield self.area([*zip(times, tops, strict=True), *back], band.colour, opacity)
            base = tops

    def moment(self, at: float, label: str, line: str = "mark", above: float = 0.0) -> Iterator[str]:
        """Yield a vertical line at a time, and its label at the top. above: how far the line goes beyond the frame."""
        x, top = self.x(at), self.top - above
        anchor, beside = ("end", x - 5) if x > self.right - 8 * len(label) else ("start", x + 5)
        yield f'<path class="{line}" d="M{x:.1f} {top:.1f}V{self.bottom:.1f}"/>'
        yield text(beside, top + 9, label, "halo small", anchor)

    def level(self, value: float, label: str) -> Iterator[str]:
        """Yield a horizontal line with its label before it."""
        y = self.y(value)
        yield f'<path class="line" d="M{self.left} {y:.1f}H{self.right}"/>'
        yield text(self.left - 8, y + 4, label, "soft small", "end")

    def grid(self) -> Iterator[str]:
        """Yield horizontal lines at round values."""
        for value in ticks(self.maximum, 4):
            yield from self.level(value, short(value))

    def capacity(self, capacity: int) -> Iterator[str]:
        """Yield a dashed line at the capacity, if there is one."""
        if capacity:
            y = self.y(capacity)
            yield f'<path class="mark" stroke-dasharray="5 4" d="M{self.left} {y:.1f}H{self.right}"/>'
            yield text(self.right - 4, y - 6, f"capacity {capacity:,}/s", "ink small", "end")

    def gaps(self, gaps: Iterable[tuple[float, float]]) -> Iterator[str]:
        """Yield marks for the time spans about which nothing is known."""
        for start, end in gaps:
            wide = max(1.0, self.x(end) - self.x(start))
            yield rect("gap", self.x(start), self.top, wide, self.height, title="no snapshots")

    def time_axis(self) -> Iterator[str]:
        yield f'<path class="axis" d="M{self.left} {self.bottom:.1f}H{self.right}"/>'
        for at, label in self.marks:
            yield from tick(self.x(at), self.bottom, label)


def legend(names: Sequence[tuple[str, int]], unit: str) -> Iterator[str]:
    """Draw a legend: as many of the names as fit in two lines above a frame, each with the number of its colour."""
    x, y, end = float(LEFT), _LINES[0], WIDTH - RIGHT - 7.0 * len(unit) - 30
    yield text(WIDTH - RIGHT, y + 10.5, unit, "soft small", "end")
    for index, (full_name, colour) in enumerate(names):
        name = cut(full_name)
        if x + 17 + 7.4 * len(name) > end and y == _LINES[0]:
            x, y, end = float(LEFT), _LINES[1], WIDTH - RIGHT - 30.0
        if x + 17 + 7.4 * len(name) > end:
            yield text(x, y + 10.5, f"+{len(names) - index}", "soft small")
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


def rect(kind: str, x: float, y: float, wide: float, high: float, *, opacity: float = 1.0, title: str = "") -> str:
    """Draw a rectangle. A browser shows `title` when the pointer is on it."""
    geometry = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:g}" opacity="{opacity:.2f}"'
    shown = f"<title>{escape(escaped(title))}</title>" if title else ""
    return f'<rect class="{kind}" {geometry}>{shown}</rect>'


def row_name(y: float, name: str) -> str:
    """Write the name of a row whose middle is at y."""
    return text(ROW_LEFT - 8, y + 4, cut(name), "ink small", "end")


def document(name: str, title: str, words: str, height: float, body: Iterable[str], style: str = _STYLE) -> str:
    """Return a picture as an SVG document.

    `name` must be unique on the page. `words` describe the picture for readers who cannot see it. `style` is empty on a
    page that has the classes' styles, and whose policy allows no others.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" '
        f'role="img" aria-labelledby="{name}-title {name}-words">\n'
        f'<title id="{name}-title">{escape(title)}</title>\n<desc id="{name}-words">{escape(words)}</desc>\n'
        + (f"<style>{style}</style>\n" if style else "")
        + f'<rect class="ground" width="{WIDTH}" height="{height:g}" rx="6"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def ticks(maximum: float, about: int) -> list[float]:
    """Return about `about` round numbers above 0 and up to `maximum`."""
    step = 10.0**-3
    while True:
        for factor in (1, 2, 5):
            if maximum / (step * factor) <= about:
                wide = step * factor
                return [round(wide * index, 6) for index in range(1, int(maximum / wide) + 1)]
        step *= 10


def time_ticks(first_ms: int, last_ms: int) -> list[tuple[int, str]]:
    """Return round times (UTC) with their labels: the time of day, or the date at midnight."""
    span_s = max(1.0, (last_ms - first_ms) / 1000)
    step = next((step for step in _TIME_STEPS_S if span_s / step <= _TIME_TICKS), _TIME_STEPS_S[-1])
    first = datetime.fromtimestamp(first_ms / 1000, UTC)
    at = first.replace(hour=0, minute=0, second=0, microsecond=0)
    labels: list[tuple[int, str]] = []
    at += timedelta(seconds=-(-((first - at).total_seconds()) // step) * step)
    while at.timestamp() * 1000 <= last_ms:
        seconds = "%H:%M:%S" if step < 60 else "%H:%M"
        label = f"{at:%d %b}" if (at.hour, at.minute, at.second) == (0, 0, 0) else f"{at:{seconds}}"
        labels.append((int(at.timestamp() * 1000), label))
        at += timedelta(seconds=step)
    return labels


def short(value: float) -> str:
    """Format a number in few characters: 950, 1.2k, 34M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
