"""Fairlane without servers: a Redis in memory that runs the scripts that ship."""
