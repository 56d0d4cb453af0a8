"""Explanations and forecasts from figures: why a task waits, when it will be done, which laws held, what a check found.
Nothing here changes a task."""
