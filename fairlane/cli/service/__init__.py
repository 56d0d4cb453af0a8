"""Commands on the running service: tiers, capacity, channels, apps, workers, the view."""
