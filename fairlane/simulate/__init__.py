"""The simulator: the real scheduler, engine and in-memory ledger under a virtual clock, with everything that can happen
to a service: workers that come, go, stall and die, calls that are late, lost, doubled, out of order."""
