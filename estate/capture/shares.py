"""How much of each text fits into an archive of bounded size."""

from collections.abc import Sequence


def longest_that_fits(sizes: Sequence[int], budget: int) -> int:
    """Return the largest size to which the texts can be cut so that all together keep to a budget.

    Smaller texts stay whole. If all fit, it is the size of the largest one.
    """
    left, count = budget, len(sizes)
    for size in sorted(sizes):
        if size * count > left:
            return max(0, left // count)
        left -= size
        count -= 1
    return max(sizes, default=0)
