"""Checks that the recorded outcomes add up to the audience."""
