"""The view in Redis: connection, registry and workers, and the scripts in `lua/`. Who may send is in `quotas`."""
