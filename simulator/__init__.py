"""Fairlane without servers: an in-memory Redis that runs the scripts that ship, and runs of scenarios over it.

Only the command `fairlane simulate` and tests import it, and a worker is installed without it. No rule of Fairlane
belongs here: a seed runs the code that ships. `estate` has models of Pulsar's shedders and BookKeeper's quarantine.
"""
