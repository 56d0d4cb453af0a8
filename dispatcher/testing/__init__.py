"""Fakes of the ports that know no Redis: a broker, a courier and logs in memory, for tests and the simulator."""
