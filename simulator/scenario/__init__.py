"""Scenario files: their fields, those that ship, and made-up ones."""
