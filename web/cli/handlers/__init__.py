"""What the commands do, of the front door."""
