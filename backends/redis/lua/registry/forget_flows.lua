#!lua flags=allow-oom
-- Removes the entries of flows that have meant nothing for FLOW_GRACE_MS.
--
-- KEYS[1] prefix
-- Returns the number of entries removed

-- include: keys.lua
-- include: clock.lua

local FLOW_GRACE_MS = 86400000
local over = redis.call('ZRANGEBYSCORE', P .. ':flows', '-inf', int_text(now_ms() - FLOW_GRACE_MS), 'LIMIT', 0, 1000)
for _, flow in ipairs(over) do
  local field = 'flow_paused:' .. flow
  redis.call('HDEL', P .. ':globals', field, 'pos|' .. field, 'pauses|' .. flow)
  redis.call('ZREM', P .. ':flows', flow)
end
return #over
