"""Puts tasks into lanes: the public Python API, cutting into envelopes, publishing."""
