"""The worker process: one file per runtime actor, heartbeats, metrics, standby. What an actor does to lanes and the
view is in `consumers`."""
