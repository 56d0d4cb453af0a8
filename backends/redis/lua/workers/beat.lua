#!lua flags=allow-oom
-- Stores a worker's heartbeat.
--
-- KEYS[1] prefix
-- ARGV[1] worker, [2] heartbeat, [3] ms to keep it, [4] when the worker started (ms), then the channels that it
--         serves
-- Returns now_ms

-- include: keys.lua
-- include: clock.lua
-- include: absences.lua
-- include: unrecorded.lua

local now = int_text(now_ms())
for i = 5, #ARGV do note_served(ARGV[i], tonumber(ARGV[4]), tonumber(now)) end
redis.call('SET', P .. ':worker:' .. ARGV[1], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', P .. ':workers', now, ARGV[1])
local unrecorded = unrecorded_in(ARGV[2])
if unrecorded then hold_unrecorded(ARGV[1], unrecorded) end
return tonumber(now)
