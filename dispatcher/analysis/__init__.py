"""Explanations and forecasts from figures: why a task waits, when it is done, which laws held. Nothing here steers."""
