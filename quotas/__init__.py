"""The ledger in Redis, which decides who may send now: one Lua file per operation, one typed method per script.

Nothing here speaks to Pulsar or knows a channel. The view's other scripts, of tasks and workers, are in
`backends.redis`.
"""
