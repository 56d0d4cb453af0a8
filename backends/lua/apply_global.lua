-- Applies a GlobalChange: the last in the topic counts, for each setting.
--
-- KEYS[1] prefix
-- ARGV[1] position, [2] capacity | tiers, [3] value
-- Returns 0

-- include: feed.lua

local position, field, value = ARGV[1], ARGV[2], ARGV[3]
local key = P .. ':globals'

local read = redis.call('HGET', key, field .. '_pos')
if read and read >= position then return 0 end

redis.call('HSET', key, field, value, field .. '_pos', position)
announce('globals', '')
return 0
