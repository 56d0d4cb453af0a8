"""Commands on tasks: submit, show, change, wait, explain, end. What they do is in `producers`."""
