"""What the commands do: functions with the names that `commands` declares. They take the context and the options."""
