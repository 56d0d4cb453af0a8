"""A real estate on this machine beside publishing lanes: its servers are killed, stopped, slowed, drained and added."""
