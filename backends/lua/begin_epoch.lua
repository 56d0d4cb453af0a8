#!lua flags=allow-oom
-- Begins a view in an empty Redis.
--
-- KEYS[1] prefix
-- ARGV[1] epoch, [2] ms in which nothing is granted, [3] number of outcome partitions, [4] run id of this Redis,
--         [5] 1 if a snapshot is to be restored first: until that is done the outcome topics are not folded
-- Returns 1, or 0 if there is a view already

-- include: feed.lua
-- include: clock.lua

local key = P .. ':epoch'
if redis.call('EXISTS', key) == 1 then return 0 end
local now = now_ms()
redis.call('HSET', key, 'id', ARGV[1], 'started_ms', whole(now), 'ready', '0', 'announced', '0', 'marked', '0',
  'grants_after_ms', whole(now + tonumber(ARGV[2])), 'partitions', ARGV[3], 'run_id', ARGV[4],
  'restoring', ARGV[5])
announce('epoch', '')
return 1
