"""The report on the backlog: snapshots, what Spark collects of them, and the page."""
