#!lua flags=no-writes
-- Computes where to cut the list of live tasks, so that no page of a snapshot of the backlog blocks Redis for long.
--
-- KEYS[1] prefix
-- ARGV[1] tasks per page
-- Returns {created_ms...}: of the last task of each page but the last one

-- include: keys.lua

local listed, size = P .. ':tasks', tonumber(ARGV[1])
local bounds = {}
for rank = size - 1, redis.call('ZCARD', listed) - 2, size do
  bounds[#bounds + 1] = redis.call('ZRANGE', listed, rank, rank, 'WITHSCORES')[2]
end
return bounds
