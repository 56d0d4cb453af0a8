"""One worker's decisions about its lanes: buffers, leases, sends and settling. One thread, no I/O."""
