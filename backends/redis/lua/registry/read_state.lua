-- Reads the registry state that a worker watches, in one call.
--
-- KEYS[1] prefix
-- Returns {now_ms, version, {side lane...}, {paused channel...}, {flow, entry...}}; the entries of flows that still
-- mean something

-- include: keys.lua
-- include: clock.lua

local now, flows = now_ms(), {}
for _, flow in ipairs(redis.call('ZRANGEBYSCORE', P .. ':flows', '(' .. int_text(now), '+inf')) do
  flows[#flows + 1] = flow
  flows[#flows + 1] = redis.call('HGET', P .. ':globals', 'flow_paused:' .. flow) or ''
end

return {
  now,
  tonumber(redis.call('GET', P .. ':version') or 0),
  redis.call('SMEMBERS', P .. ':sides'),
  redis.call('SMEMBERS', P .. ':paused'),
  flows,
}
