"""The worker process: one file per runtime actor."""
