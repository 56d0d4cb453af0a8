"""Consumers on lanes: opening, prefetch, draining, giving back. `dispatcher.engine` decides what to send."""
