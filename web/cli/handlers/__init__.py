"""Handlers of the front door's commands."""
