#!lua flags=allow-oom
-- Finds tasks that are sealed and have an outcome for every target but no tombstone. Scans a page of the live tasks.
--
-- KEYS[1] prefix
-- ARGV[1] first index in the list of live tasks, [2] number of tasks to scan
-- Returns {number of tasks scanned, task...}

-- include: task_end.lua

local first = tonumber(ARGV[1])
local tasks = redis.call('ZRANGE', P .. ':tasks', first, first + tonumber(ARGV[2]) - 1)
local answer = { #tasks }
for _, task in ipairs(tasks) do
  if is_complete(task) then answer[#answer + 1] = task end
end
return answer
