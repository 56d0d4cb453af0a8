#!lua flags=allow-oom
-- Notes that another Redis holds the view of this installation: this one is never completed.
--
-- KEYS[1] prefix
-- ARGV[1] epoch, [2] address of the other Redis
-- Returns 1, or 0 if Redis now holds another view

-- include: feed.lua

local key = P .. ':epoch'
if redis.call('HGET', key, 'id') ~= ARGV[1] then return 0 end
redis.call('HSET', key, 'foreign', ARGV[2])
announce('epoch', '')
return 1
