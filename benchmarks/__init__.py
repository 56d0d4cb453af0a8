"""Measurements of the real service: the local stack, real worker processes, the `null` channel. Not installed; what a
user runs is in `fairlane`."""
