"""The work of the commands of the laboratory."""
