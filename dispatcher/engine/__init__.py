"""How one worker handles its lanes: buffers, leases, sends and settling. One thread, no I/O."""
