"""Rules of fairness: who goes next and how much, shares, bounds and the division of lanes. Pure functions and small
states."""
