"""Put tasks into lanes: the public Python API, cutting audiences into envelopes, and publishing them."""

from dispatcher.public_names import warn_of_imports_from

warn_of_imports_from("producers")
