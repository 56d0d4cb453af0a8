#!lua flags=allow-oom
-- Finds those of some tasks that are sealed and have an outcome for every target but no tombstone.
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
