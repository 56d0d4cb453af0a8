"""Scenario files: their fields, those that ship, and random ones."""
