-- Reads the registry state that a worker watches, in one call.
--
-- KEYS[1] prefix
-- Returns {now_ms, version, {side lane...}, {paused channel...}}

-- include: keys.lua
-- include: clock.lua

return {
  now_ms(),
  tonumber(redis.call('GET', P .. ':version') or 0),
  redis.call('SMEMBERS', P .. ':sides'),
  redis.call('SMEMBERS', P .. ':paused'),
}
