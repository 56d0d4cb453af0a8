"""What tasks, tiers, settings and the view are, for every package. Nothing here knows a server or the engine."""
