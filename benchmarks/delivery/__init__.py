"""Requests to a provider: the client alone, against a server that does nothing but answer. Each has a core."""
