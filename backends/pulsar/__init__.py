"""Pulsar's client and REST interface, and Fairlane's topics on them. The only place that imports `pulsar`."""
