"""The ledger in Redis, which decides who may send now: one Lua file per operation, one typed method per script."""
