"""Fit the columns of a table into a width without cutting any: bars shrink, texts wrap, then whole columns go."""

from collections.abc import Sequence
from typing import NamedTuple

GAPS = (2, 1)
"""Spaces between two columns: as many as there is room for."""


class ColumnWidth(NamedTuple):
    """The width of a column."""

    least: int
    """The width below which something in it would be cut."""
    whole: int
    """The width that it takes where there is room."""
    is_bar: bool = False
    """Whether it is a progress bar, which grows last."""


class Layout(NamedTuple):
    """The columns that are shown."""

    widths: dict[int, int]
    """Width by index of the column."""
    gap: int
    """Spaces between two of them."""


def fit(needs: Sequence[ColumnWidth], leaving: Sequence[int], width: int) -> Layout:
    """Return the columns that have room in `width`. leaving: all indexes in the order in which they are left out; the
    last one stays, whatever its width."""
    shown = _shown(needs, leaving, width)
    gap = next((gap for gap in GAPS if _least(needs, shown, gap) <= width), GAPS[-1])
    widths = {index: needs[index].least for index in shown}
    spare = width - _least(needs, shown, gap)
    for is_bar in (False, True):
        spare = _grow(widths, {index: needs[index].whole for index in shown if needs[index].is_bar == is_bar}, spare)
    return Layout(widths, gap)


def _shown(needs: Sequence[ColumnWidth], leaving: Sequence[int], width: int) -> list[int]:
    """Take columns out until the others have room, then back in what has room beside them."""
    shown, gone = list(range(len(needs))), list[int]()
    for index in leaving[:-1]:
        if _least(needs, shown, GAPS[-1]) <= width:
            break
        shown.remove(index)
        gone.append(index)
    for index in reversed(gone):
        if _least(needs, [*shown, index], GAPS[-1]) <= width:
            shown.append(index)
    return sorted(shown)


def _least(needs: Sequence[ColumnWidth], shown: Sequence[int], gap: int) -> int:
    return sum(needs[index].least for index in shown) + gap * (len(shown) - 1)


def _grow(widths: dict[int, int], whole: dict[int, int], spare: int) -> int:
    """Share the spare width among the columns that lack some, the least lacking first; return what is left."""
    lacking = sorted(whole, key=lambda index: whole[index] - widths[index])
    for position, index in enumerate(lacking):
        more = min(whole[index] - widths[index], max(0, spare) // (len(lacking) - position))
        widths[index] += more
        spare -= more
    return spare
