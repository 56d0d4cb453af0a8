"""The HTTP API: its server in one process on one core, and clients in this process."""
