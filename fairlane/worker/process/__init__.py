"""A worker as a process: signals, supervisor, threads, watchdog, standby."""
