"""Checks that the recorded outcomes add up to the audience. The outcomes come from `spark_jobs.journal`."""
