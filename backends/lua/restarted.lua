-- Redis was restarted with its data, and may have lost the claims of its last second: nothing is granted until they have
-- ended. Never shortens a wait.
--
-- KEYS[1] prefix
-- ARGV[1] grants_after_ms
-- Returns 1, or 0 if there is no view, or it waits as long already

-- include: keys.lua

local key = P .. ':epoch'
if redis.call('EXISTS', key) == 0 then return 0 end
if tonumber(redis.call('HGET', key, 'grants_after_ms') or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', key, 'grants_after_ms', ARGV[1])
return 1
