-- Reads what a worker's watch goes by, in one call.
--
-- KEYS[1] prefix
-- Returns {now_ms, version, {side lane...}, {paused channel...}}

-- include: keys.lua
-- include: clock.lua

local paused, settings = {}, redis.call('HGETALL', P .. ':globals')
for i = 1, #settings, 2 do
  local channel = string.match(settings[i], '^channel_paused:(.*)$')
  if channel and settings[i + 1] == '1' then paused[#paused + 1] = channel end
end

return {
  now_ms(),
  tonumber(redis.call('GET', P .. ':version') or 0),
  redis.call('SMEMBERS', P .. ':sides'),
  paused,
}
