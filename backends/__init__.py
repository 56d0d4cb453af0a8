"""Pulsar and Redis as this project uses them: connections, topic administration, records, the registry."""
