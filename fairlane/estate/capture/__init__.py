"""Captures: the state of estate and service at one moment, as one archive for those who look into it later."""
