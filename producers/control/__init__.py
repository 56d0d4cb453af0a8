"""Changes of live tasks and of the whole service, and what they would do."""
