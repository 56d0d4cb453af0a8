"""Keeps a time series of what lanes, tiers and caps look like."""
