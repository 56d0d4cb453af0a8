#!lua flags=allow-oom
-- Reads all heartbeats that are kept, and forgets workers whose heartbeat has expired.
--
-- KEYS[1] prefix
-- Returns {now_ms, seen_ms, heartbeat, ...}

-- include: keys.lua
-- include: clock.lua

local listed = P .. ':workers'
local answer = { now_ms() }
local found = redis.call('ZRANGE', listed, 0, -1, 'WITHSCORES')
for index = 1, #found, 2 do
  local beat = redis.call('GET', P .. ':worker:' .. found[index])
  if beat then
    answer[#answer + 1] = tonumber(found[index + 1])
    answer[#answer + 1] = beat
  else
    redis.call('ZREM', listed, found[index])
  end
end
return answer
