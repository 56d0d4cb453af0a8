"""Puts tasks into lanes: the public Python API, cutting into envelopes, publishing."""

from dispatcher.public_names import warn_of_imports_from

warn_of_imports_from("producers")
