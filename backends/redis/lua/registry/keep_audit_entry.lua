#!lua flags=allow-oom
-- Keeps a change that is not in the control topic, such as a mark of dead letters.
--
-- KEYS[1] prefix
-- ARGV[1] id, [2] packed, as in audit.lua
-- Returns 0

-- include: audit.lua

keep_audit_entry(ARGV[1], ARGV[2])
return 0
