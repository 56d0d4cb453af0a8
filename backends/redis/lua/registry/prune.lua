#!lua flags=allow-oom
-- Removes tasks whose tombstones have expired from the lists.
--
-- KEYS[1] prefix
-- ARGV[1] maximum number of tasks to scan
-- Returns the number of tasks removed

-- include: keys.lua
-- include: clock.lua

local listed = P .. ':ended'
local gone = 0
local old = redis.call('ZRANGEBYSCORE', listed, '-inf', int_text(now_ms() - TOMBSTONE_MS), 'LIMIT', 0, ARGV[1])
for _, task in ipairs(old) do
  if redis.call('EXISTS', task_key(task)) == 0 then
    redis.call('ZREM', listed, task)
    redis.call('ZREM', P .. ':index', task)
    gone = gone + 1
  end
end
return gone
