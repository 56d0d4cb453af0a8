"""Grafana boards and Prometheus rules of deploy/monitoring, written from one place each: `python -m scripts.boards`.

They are written by a developer and checked in, like the pages of scripts/reference.py. The program does not need them,
so neither this package nor the library of Grafana's types is a part of it. Here belongs what decides about a board or a
rule; what to do about an alert is in docs/runbooks.md.
"""
