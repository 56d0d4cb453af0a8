"""The fate of single targets: outcomes, failures, invalid targets, and dead letters with sending them again."""
