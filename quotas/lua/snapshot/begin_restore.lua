#!lua flags=allow-oom
-- Takes over the restore of a view: an earlier restorer can no longer write to it. (Two at once would undo each other's
-- parts.)
--
-- KEYS[1] prefix
-- ARGV[1] epoch
-- Returns the new restorer's name, or '' if Redis now holds another view or this one needs no restore (any more)

-- include: keys.lua

local key = P .. ':epoch'
local epoch = redis.call('HMGET', key, 'id', 'restoring')
if epoch[1] ~= ARGV[1] or (epoch[2] or '0') == '0' then return '' end
local restorer = ARGV[1] .. '/' .. int_text(redis.call('HINCRBY', key, 'restorers', 1))
redis.call('HSET', key, 'restoring', restorer)
return restorer
