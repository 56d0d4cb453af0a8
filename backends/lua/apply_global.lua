#!lua flags=allow-oom
-- Applies a GlobalChange: the last in the topic counts, for each setting. Its position is kept under `pos|` and the
-- field, which cannot be mistaken for a setting of an app or a channel of that name; when a channel was paused and
-- resumed, under `pauses|` and its name.
--
-- KEYS[1] prefix
-- ARGV[1] position, [2] field (dispatcher/service_settings.py has them all), [3] value, [4] at_ms
-- Returns 0

-- include: feed.lua
-- include: pauses.lua

local position, field, value = ARGV[1], ARGV[2], ARGV[3]
local key = P .. ':globals'
local channel = string.match(field, '^channel_paused:(.*)$')

if channel then note_pause(key, 'pauses|' .. channel, position, value, ARGV[4]) end
local read = redis.call('HGET', key, 'pos|' .. field)
if read and read >= position then return 0 end

redis.call('HSET', key, field, value, 'pos|' .. field, position)
keep_paused(field, value)
announce('globals', '')
return 0
