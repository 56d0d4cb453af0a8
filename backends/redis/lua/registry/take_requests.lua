#!lua flags=allow-oom
-- Counts requests of an app in the present second of Redis' clock, over all processes of the API.
--
-- KEYS[1] prefix
-- ARGV[1] app, [2] maximum in a second, [3] requests wanted
-- Returns how many of them the app may make, and the milliseconds until the second is over

-- include: clock.lua
-- include: keys.lua

local key = P .. ':requests:' .. ARGV[1]
local now = now_ms()
local second = math.floor(now / 1000)
local got = redis.call('HMGET', key, 'second', 'count')
local count = tonumber(got[1] or -1) == second and tonumber(got[2]) or 0
local taken = math.max(0, math.min(tonumber(ARGV[3]), tonumber(ARGV[2]) - count))
redis.call('HSET', key, 'second', int_text(second), 'count', int_text(count + taken))
redis.call('PEXPIRE', key, 5000)
return { taken, second * 1000 + 1000 - now }
