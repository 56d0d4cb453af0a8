"""What one worker does with its lanes: buffers, leases, sends and settling. One thread, no I/O."""
