#!lua flags=allow-oom
-- Finds tasks without any claim in force that may have envelopes marked as claimed: more are touched than final, or
-- some are open, which `claim_lost.lua` checks one by one. Scans a page of the live tasks, which ends early if tasks
-- have many writers.
--
-- KEYS[1] prefix
-- ARGV[1] first index in the list of live tasks, [2] number of tasks to scan
-- Returns {number of tasks scanned, task...}

-- include: writers.lua
-- include: integers.lua

local MAX_WRITERS = 500
local first = tonumber(ARGV[1])
local tasks = redis.call('ZRANGE', P .. ':tasks', first, first + tonumber(ARGV[2]) - 1)
local answer, writers = { 0 }, 0

local function has_marks(task)
  local values = redis.call('HMGET', task_key(task), 'ended', 'closed', 'claims')
  if (values[1] or '') ~= '' or values[2] == '1' or int(values[3]) > 0 then return false end
  if redis.call('EXISTS', open_key(task)) == 1 then return true end
  for writer in pairs(writers_of(task)) do
    writers = writers + 1
    if redis.call('BITCOUNT', touched_key(task, writer)) > redis.call('BITCOUNT', final_key(task, writer)) then
      return true
    end
  end
  return false
end

for _, task in ipairs(tasks) do
  if has_marks(task) then answer[#answer + 1] = task end
  answer[1] = answer[1] + 1
  if writers > MAX_WRITERS then break end
end
return answer
