#!lua flags=allow-oom
-- Counts a request of an app in the present second of Redis' clock, over all processes of the API.
--
-- KEYS[1] prefix
-- ARGV[1] app, [2] maximum in a second
-- Returns 1, or 0 if the app has had its requests

-- include: clock.lua
-- include: keys.lua

local key = P .. ':requests:' .. ARGV[1]
local second = math.floor(now_ms() / 1000)
local got = redis.call('HMGET', key, 'second', 'count')
local count = tonumber(got[1] or -1) == second and tonumber(got[2]) or 0
if count >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', key, 'second', int_text(second), 'count', int_text(count + 1))
redis.call('PEXPIRE', key, 5000)
return 1
