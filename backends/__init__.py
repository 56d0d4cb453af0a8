"""Pulsar and Redis as this project uses them: connections, topic administration, records, the registry.

Who may send is not decided here but in `quotas`; what is sent and when, in `dispatcher`, `producers` and `consumers`.
"""
