#!lua flags=no-writes
-- Reads one page of a snapshot of the backlog: live tasks by creation time, or ended tasks by end time.
--
-- KEYS[1] prefix
-- ARGV[1] tasks | ended, [2] and [3] first and last score, as ZRANGEBYSCORE takes them, [4] maximum number of tasks,
--         [5] number n of fields, then n fields. The first are those of task_state.lua. [6 + n] is not used: it makes
--         the call larger than what Redis reads from a client at once, so that it serves others between two pages
-- Returns {number of tasks found, packed...}, each the msgpack of {id, state, envelopes with open targets, {value...}};
-- an absent value is false. Tasks whose record is not (or no longer) known are left out

-- include: keys.lua
-- include: clock.lua
-- include: task_state.lua

local now, count = now_ms(), tonumber(ARGV[5])
local fields = { unpack(ARGV, 6, 5 + count) }
local found = redis.call('ZRANGEBYSCORE', P .. ':' .. ARGV[1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local answer = { #found }
for _, task in ipairs(found) do
  local got = redis.call('HMGET', task_key(task), unpack(fields))
  if got[6] then
    local state = state_of(got, now)
    local open = redis.call('HLEN', P .. ':open:' .. task)
    answer[#answer + 1] = cmsgpack.pack({ task, state, open, got })
  end
end
return answer
