#!lua flags=allow-oom
-- Finds tasks that are sealed, have an outcome for every target and no tombstone. Looks at a page of the live tasks.
--
-- KEYS[1] prefix
-- ARGV[1] first place in the list of live tasks, [2] how many to look at
-- Returns {how many were looked at, task...}

-- include: task_end.lua

local first = tonumber(ARGV[1])
local tasks = redis.call('ZRANGE', P .. ':tasks', first, first + tonumber(ARGV[2]) - 1)
local answer = { #tasks }
for _, task in ipairs(tasks) do
  if is_complete(task) then answer[#answer + 1] = task end
end
return answer
