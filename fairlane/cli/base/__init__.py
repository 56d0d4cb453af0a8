"""What all commands share: groups, arguments, output, exit codes, the invocation."""
