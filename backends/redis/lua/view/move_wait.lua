#!lua flags=allow-oom
-- Moves a view's wait for earlier claims back with Redis' clock, which was set back to a time before that wait: it would
-- last longer by as much, and nothing would be granted meanwhile.
--
-- KEYS[1] prefix
-- ARGV[1] epoch
-- Returns 1, or 0 if Redis now holds another view or there is nothing to move

-- include: keys.lua
-- include: clock.lua
-- constants: MOVED_MS

local key, now = P .. ':epoch', now_ms()
local got = redis.call('HMGET', key, 'id', 'waits_from_ms', 'grants_after_ms', 'adopted')
local early_ms = tonumber(got[2] or 0) - now - (got[4] == '1' and MOVED_MS or 0)
if got[1] ~= ARGV[1] or early_ms <= 0 then return 0 end
redis.call('HSET', key, 'waits_from_ms', int_text(tonumber(got[2]) - early_ms),
  'grants_after_ms', int_text(tonumber(got[3]) - early_ms))
return 1
