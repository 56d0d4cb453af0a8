"""The registry in Redis, divided by question: tasks, submissions, the whole service, and how far it is applied.

Everything here is folded from the control topic. Leases, claims and counts of outcomes belong in `quotas`.
"""
