"""Reports of a worker on itself: heartbeat, metrics, errors of sends."""
