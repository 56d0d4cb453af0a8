"""Commands on tables: ingest, journal, reconcile, backlog."""
