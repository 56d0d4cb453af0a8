"""Figures of the whole service: signals for autoscaling, usage, forecasts of changes, backlog snapshots."""
