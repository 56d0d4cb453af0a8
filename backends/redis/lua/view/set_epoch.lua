#!lua flags=allow-oom
-- Sets a field of the view's epoch, such as `foreign`: the address of another Redis that holds the view of this
-- installation.
--
-- KEYS[1] prefix
-- ARGV[1] epoch, [2] field, [3] value
-- Returns 1, or 0 if Redis now holds another view

-- include: feed.lua

local key = P .. ':epoch'
if redis.call('HGET', key, 'id') ~= ARGV[1] then return 0 end
redis.call('HSET', key, ARGV[2], ARGV[3])
announce('epoch', '')
return 1
