"""Checks for `fairlane doctor`: each yields findings with a fix. They change nothing."""
