#!lua flags=allow-oom
-- Deletes every key of the prefix, all in one script: a fold that runs meanwhile sees either the old view or none.
--
-- KEYS[1] prefix
-- ARGV[1] pattern of its keys
-- Returns how many there were

-- include: wipe_all.lua

return wipe_all(ARGV[1])
