#!lua flags=allow-oom
-- Says which of some tasks are sealed, have an outcome for every target and no tombstone.
--
-- KEYS[1] prefix
-- ARGV tasks
-- Returns them

-- include: task_end.lua

local answer = {}
for _, task in ipairs(ARGV) do
  if is_complete(task) then answer[#answer + 1] = task end
end
return answer
