"""Common parts of all commands: groups, arguments, output, exit codes, the invocation."""
