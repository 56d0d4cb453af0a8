"""Fit the columns of a table into a width without cutting text: bars shrink, texts wrap, then columns are omitted."""

from collections.abc import Sequence
from typing import NamedTuple

GAPS = (2, 1)
"""Numbers of spaces between two columns, tried in this order."""


class ColumnWidth(NamedTuple):
    """The width of a column."""

    min_width: int
    """The minimum width at which nothing in it is cut."""
    full_width: int
    """The width it takes if there is room."""
    is_bar: bool = False
    """Whether it is a progress bar; these grow last."""


class Layout(NamedTuple):
    """The columns that are shown."""

    widths: dict[int, int]
    """Width by column index."""
    gap: int
    """Spaces between two columns."""


def fit(needs: Sequence[ColumnWidth], leaving: Sequence[int], width: int) -> Layout:
    """Return the columns that fit in `width`, and their widths.

    `leaving`: the indexes of all columns, in the order in which they are omitted. The last of these is always shown,
    even if it is wider than `width`.
    """
    shown = _shown(needs, leaving, width)
    gap = next((gap for gap in GAPS if _min_width(needs, shown, gap) <= width), GAPS[-1])
    widths = {index: needs[index].min_width for index in shown}
    spare = width - _min_width(needs, shown, gap)
    for is_bar in (False, True):
        spare = _grow(
            widths, {index: needs[index].full_width for index in shown if needs[index].is_bar == is_bar}, spare
        )
    return Layout(widths, gap)


def _shown(needs: Sequence[ColumnWidth], leaving: Sequence[int], width: int) -> list[int]:
    """Remove columns until the others fit, then add back those that fit beside them."""
    shown, gone = list(range(len(needs))), list[int]()
    for index in leaving[:-1]:
        if _min_width(needs, shown, GAPS[-1]) <= width:
            break
        shown.remove(index)
        gone.append(index)
    for index in reversed(gone):
        if _min_width(needs, [*shown, index], GAPS[-1]) <= width:
            shown.append(index)
    return sorted(shown)


def _min_width(needs: Sequence[ColumnWidth], shown: Sequence[int], gap: int) -> int:
    return sum(needs[index].min_width for index in shown) + gap * (len(shown) - 1)


def _grow(widths: dict[int, int], whole: dict[int, int], spare: int) -> int:
    """Share the spare width among the columns that need more, smallest need first; return what is left."""
    lacking = sorted(whole, key=lambda index: whole[index] - widths[index])
    for position, index in enumerate(lacking):
        more = min(whole[index] - widths[index], max(0, spare) // (len(lacking) - position))
        widths[index] += more
        spare -= more
    return spare
