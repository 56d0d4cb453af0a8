"""All live tasks in the memory of one process: lists, counts, estimates and events without work for Redis."""
