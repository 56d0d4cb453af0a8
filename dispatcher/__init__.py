"""The idea without its servers: types, scheduling, verdicts and life cycles; no network, environment or wall clock."""
