-- Finds the tasks that can be closed: cancelled, stopped or expired tasks with open targets, without a live claim, and
-- without outcomes of claims before this view that a live worker has yet to record. One CloseTask record then gives all
-- their open targets an outcome, including those in a retry lane. A task with a seal that does not count yet must wait
-- for it, since the seal determines the number of open targets. Tasks that an operator closed are returned even if they
-- wait. Scans a page of the live tasks.
--
-- KEYS[1] prefix
-- ARGV[1] first index in the list of live tasks, [2] number of tasks to scan
-- Returns {number of tasks scanned, {task, 'cancelled' or 'expired', why it was stopped or closed, 1 if an operator
--   closed it, 1 if it waits for claims or its seal}...}

-- include: keys.lua
-- include: clock.lua
-- include: integers.lua
-- include: seals.lua

local now, first = now_ms(), tonumber(ARGV[1])
local tasks = redis.call('ZRANGE', P .. ':tasks', first, first + tonumber(ARGV[2]) - 1)
local answer, cursor = { #tasks }, control_cursor()

local function closing(task)
  local values = redis.call('HMGET', task_key(task), 'lane', 'ended', 'claims', 'sealed', 'total', 'finals',
    'cancelled', 'expires_ms', 'stopped', 'sealed_pos', 'close')
  if not values[1] or (values[2] or '') ~= '' then return nil end
  local is_held = int(values[3]) > 0 or redis.call('HEXISTS', P .. ':unrecorded', task) == 1
  local waits = is_held or not is_settled(values[10], cursor)
  if waits and not values[11] then return nil end
  if values[4] == '1' and int(values[6]) >= int(values[5]) then return nil end
  if values[11] then return { task, 'cancelled', values[11], 1, waits and 1 or 0 } end
  if values[7] == '1' then return { task, 'cancelled', '', 0, 0 } end
  if values[9] then return { task, 'cancelled', values[9], 0, 0 } end
  local expires = int(values[8])
  if expires > 0 and expires <= now then return { task, 'expired', '', 0, 0 } end
end

for _, task in ipairs(tasks) do
  local row = closing(task)
  if row then answer[#answer + 1] = row end
end
return answer
