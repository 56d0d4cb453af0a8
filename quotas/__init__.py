"""Who may send now: the ledger in Redis, one Lua file per operation and a typed function per script."""
