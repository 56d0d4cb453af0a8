"""The work of the commands on the estate."""
