"""Rules that keep a flow from harm: its trouble and pauses, the breaker, the door that paces it, and the guards against
answers that are too many to be true."""
