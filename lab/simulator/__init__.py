"""Fakes of the ports without Redis: a broker, a courier and logs in memory, for tests and the simulator."""
