"""Fairlane without servers: an in-memory Redis that runs the scripts that ship."""
