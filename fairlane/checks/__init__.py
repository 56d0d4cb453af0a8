"""Checks for `fairlane doctor`."""
