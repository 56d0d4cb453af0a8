"""Draws figures as bars, one below the other."""

from collections.abc import Callable, Sequence

from fairlane.pages.picture import RIGHT, TOP, WIDTH, document, rect, text

LEFT, ROW, THICK = 250, 30, 20
"""In pixels: the left edge of the bars, the height of a row and of its bar."""
NUMBER = 90
"""The width that the longest bar leaves for its number."""
OWN, OTHERS = "c0", "c6"


def bars(name: str, title: str, values: Sequence[tuple[str, float]], shown: Callable[[float], str]) -> str:
    """Return a picture as SVG. Labels that begin with Fairlane have a colour of their own."""
    body, longest = [text(16, 26, title, "ink")], max(value for _, value in values) or 1
    for index, (label, value) in enumerate(values):
        y, wide = TOP + index * ROW, (WIDTH - RIGHT - LEFT - NUMBER) * value / longest
        body += [
            text(LEFT - 8, y + 15, label, "ink small", "end"),
            rect(OWN if label.startswith("Fairlane") else OTHERS, LEFT, y, wide, THICK),
            text(LEFT + wide + 8, y + 15, shown(value), "soft small"),
        ]
    words = "; ".join(f"{label} {shown(value)}" for label, value in values)
    return document(name, title, words, TOP + len(values) * ROW + 8, body)
