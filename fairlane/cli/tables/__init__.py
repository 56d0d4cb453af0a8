"""Commands on tables: ingest, journal, reconcile, backlog. The jobs are in `spark_jobs`."""
