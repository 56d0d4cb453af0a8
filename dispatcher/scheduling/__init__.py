"""Who goes next and how much: picks, shares, bounds and the division of lanes. Pure functions and small states."""
