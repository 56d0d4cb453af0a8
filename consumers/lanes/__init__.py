"""Consumers on lanes: opening, prefetch, draining, giving back. What is sent is decided by `dispatcher.engine`."""
