"""Models of what Pulsar and BookKeeper do by themselves: load shedders and the quarantine of bookies."""
