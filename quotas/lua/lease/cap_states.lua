#!lua flags=allow-oom
-- Returns how much of the caps of flows and quota groups may be used now, and why not all. Changes nothing.
--
-- KEYS[1] prefix
-- ARGV names of pools
-- Returns {now; for each pool {millionths of the cap; until when it is halved and does not grow, when it has grown to
-- all of the cap, when its ramp from rest ends (each in ms, 0: it is not so, or over); 1 if it rests}}

-- include: settings.lua
-- include: clock.lua

local now, answer = now_ms(), {}
answer[1] = now

local function later(at_ms)
  return at_ms > now and at_ms or 0
end

for i, name in ipairs(ARGV) do
  local factor, slow_until, full = call.factor_of(name, now)
  local ramp, ramp_end, rests = 1, 0, false
  if string.match(name, '^quota/') then ramp, ramp_end, rests = call.ramp_state(name, now) end
  local ramping = ramp < 1 and not rests
  answer[i + 1] = {
    math.floor(factor * ramp), later(slow_until), later(full), ramping and later(ramp_end) or 0, rests and 1 or 0,
  }
end
return answer
