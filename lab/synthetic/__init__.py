"""Synthetic tables of Spark: a backlog and a journal of any size, for tests and benchmarks."""
