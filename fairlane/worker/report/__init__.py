"""What a worker says of itself: heartbeat, metrics, errors of sends."""
