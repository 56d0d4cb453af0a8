#!lua flags=allow-oom
-- Deletes every key of the prefix in one script, so that a concurrent fold sees either the old view or none.
--
-- KEYS[1] prefix
-- ARGV[1] pattern of its keys
-- Returns the number of keys deleted

-- include: wipe_all.lua

return wipe_all(ARGV[1])
