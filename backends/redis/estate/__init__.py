"""Notes in Redis for those who watch the estate: states of nodes under guard, and when brokers were last seen."""
