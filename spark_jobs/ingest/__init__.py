"""The ingestion job: a table becomes a task. The data source that it writes to is in `spark_jobs.source`."""
