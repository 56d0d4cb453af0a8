#!lua flags=allow-oom
-- Notes a step of a rebuild.
--
-- KEYS[1] prefix
-- ARGV[1] epoch, [2] announced | marked, [3] 1 if there is no claim to wait for, else 0; when announced: [4] position of
--         its record, [5] address of this Redis, which a view of version 0.2 lacks
-- Returns 1, or 0 if the view is another by now

-- include: keys.lua
-- include: clock.lua

local key = P .. ':epoch'
if redis.call('HGET', key, 'id') ~= ARGV[1] then return 0 end
redis.call('HSET', key, ARGV[2], '1')
if ARGV[4] then redis.call('HSET', key, 'announced_at', ARGV[4], 'address', ARGV[5]) end
if ARGV[3] == '1' then redis.call('HSET', key, 'grants_after_ms', whole(now_ms()), 'first', '1') end
return 1
