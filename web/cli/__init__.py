"""The commands of the front door."""
