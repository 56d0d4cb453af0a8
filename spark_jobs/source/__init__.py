"""The data source "fairlane": rows become envelopes under one seal, from many executors at once."""
