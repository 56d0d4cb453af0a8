-- Reads fields of the tasks named.
--
-- KEYS[1] prefix
-- ARGV[1] number n of fields, then n fields, then task ids. The first fields are those of task_state.lua
-- Returns {now_ms, row...}; a row is {id, state, {value...}}. Tasks whose record is not (or no longer) known are left
-- out

-- include: keys.lua
-- include: clock.lua
-- include: task_state.lua

local now = now_ms()
local count = tonumber(ARGV[1])
local fields = { unpack(ARGV, 2, count + 1) }
local answer = { now }
for index = count + 2, #ARGV do
  local got = redis.call('HMGET', task_key(ARGV[index]), unpack(fields))
  if got[6] then
    answer[#answer + 1] = { ARGV[index], state_of(got, now), got }
  end
end
return answer
