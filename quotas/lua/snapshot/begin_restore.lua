#!lua flags=allow-oom
-- Takes over the restoring of a view: whoever did it before can put nothing into it any more. (Two at once would undo
-- each other's parts.)
--
-- KEYS[1] prefix
-- ARGV[1] epoch
-- Returns who restores from now on, or '' if the view is another by now, or not to be restored (any more)

-- include: keys.lua

local key = P .. ':epoch'
local epoch = redis.call('HMGET', key, 'id', 'restoring')
if epoch[1] ~= ARGV[1] or (epoch[2] or '0') == '0' then return '' end
local who = ARGV[1] .. '/' .. whole(redis.call('HINCRBY', key, 'restorers', 1))
redis.call('HSET', key, 'restoring', who)
return who
