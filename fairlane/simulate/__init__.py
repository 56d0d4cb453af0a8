"""The simulator: scheduler, engine, ledger and fold as they ship, under a virtual clock, with all that can happen to a
service: workers that come, go, stall and die, calls that are late, lost, doubled, out of order."""
