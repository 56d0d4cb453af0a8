"""The ports in memory: for tests, and the reference that the real ones are held to."""
