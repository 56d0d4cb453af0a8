#!lua flags=allow-oom
-- Applies a GlobalChange: for each setting, the last in the topic counts. Its position is kept in the field
-- `pos|<field>`, which cannot be mistaken for a setting of an app or a channel of that name. The times when a channel
-- was paused and resumed are kept in `pauses|<channel>`.
--
-- KEYS[1] prefix
-- ARGV[1] position, [2] field (dispatcher/model/service_settings.py has them all), [3] value, [4] at_ms
-- Returns 0

-- include: feed.lua
-- include: pauses.lua
-- include: cap_rate.lua

local position, field, value = ARGV[1], ARGV[2], ARGV[3]
local key = P .. ':globals'
local channel = string.match(field, '^channel_paused:(.*)$')
local pool = field == 'capacity' and 'total' or string.match(field, '^cap:(.*)$')

if channel then note_pause(key, 'pauses|' .. channel, position, value, ARGV[4]) end
local read = redis.call('HGET', key, 'pos|' .. field)
if read and read >= position then return 0 end

redis.call('HSET', key, field, value, 'pos|' .. field, position)
keep_paused(field, value)
if pool then note_rate(P .. ':pool:' .. string.gsub(pool, ':', '/', 1), 'rate', value) end
announce('globals', '')
return 0
