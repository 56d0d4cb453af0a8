"""The work of each command: a function with the name that `commands` declares. Takes the context and the options."""
