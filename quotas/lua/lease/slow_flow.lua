#!lua flags=allow-oom
-- Halves the rate of the caps that only one flow, or its quota group, draws from, since its provider asks it to slow
-- down. It stays halved for some time, and then grows by 5 % of the cap every ten seconds (settings.lua). Until that
-- time is over, others that report the same change nothing.
--
-- KEYS[1] prefix
-- ARGV[1] channel, [2] app, [3] for how long in ms
-- Returns the number of such caps; 0: the flow has none

-- include: settings.lua
-- include: clock.lua

local LOWEST_FACTOR = 15625
local channel, app, for_ms, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), now_ms()

local function slow(name)
  local key = P .. ':pool:' .. name
  local factor, until_ms = call.factor_of(name, now)
  if now < until_ms then return end
  redis.call('HSET', key, 'factor', int_text(math.max(div(factor, 2), LOWEST_FACTOR)),
    'slow_until_ms', int_text(now + for_ms))
  call.factor_of(name, now)
  call.keep_pool(name, now)
end

want_settings(app, channel)
read_settings(now)
local count = 0
for _, name in ipairs(pools_of(app, channel)) do
  if call.is_of_flow(name) then
    slow(name)
    count = count + 1
  end
end
return count
