"""Measurements of the real thing: the local stack, real worker processes, the `null` channel."""
