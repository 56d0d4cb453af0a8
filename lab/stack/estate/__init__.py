"""An estate on this machine: ZooKeeper, bookies on addresses of their own, and brokers, each a process."""
