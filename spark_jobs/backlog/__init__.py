"""The report on the backlog: snapshots, the facts that Spark collects from them, and the page."""
