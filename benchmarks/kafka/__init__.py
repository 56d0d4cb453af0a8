"""Fairlane and Pulsar beside Kafka. The Kafka client runs in an environment of its own."""
