"""Moves of bundles between brokers: their facts, how they are made, and the log of a run."""
