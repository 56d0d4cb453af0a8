#!lua flags=allow-oom
-- Stores errors and waits of a worker's sends: the errors of tasks, and the tasks that have long been in their
-- channels.
--
-- KEYS[1] prefix
-- ARGV[1] msgpack of {task, reason, count, at_ms, attempt, retry_ms}...; [2] msgpack of {task, ms}...
-- Returns 0

-- include: why.lua
-- include: clock.lua

-- A task that was requested within this time is counted by the ledger (causes.lua).
local NOT_COUNTED_MS = 2500
local now = now_ms()

local function note_error(error)
  local key = task_key(error[1])
  local got = redis.call('HMGET', key, 'lane', 'error_ms')
  if not got[1] then return end
  redis.call('HINCRBY', key, 'errors', whole(error[3]))
  if int(got[2]) > error[4] then return end
  redis.call('HSET', key, 'error', error[2], 'error_ms', whole(error[4]), 'error_attempt', whole(error[5]))
  redis.call('HSET', key, 'retry_ms', whole(error[6]))
end

local function note_wait(id, ms)
  local got = redis.call('HMGET', task_key(id), 'lane', 'ended', 'why_ms', 'created_ms', 'start_ms')
  if not got[1] or (got[2] or '') ~= '' then return end
  local task = { id = id, why_ms = int(got[3]) }
  local uncounted = now - math.max(task.why_ms, int(got[4]), int(got[5]))
  if uncounted >= NOT_COUNTED_MS then add_causes(task, { provider = math.min(uncounted, ms) }, now) end
end

for _, error in ipairs(cmsgpack.unpack(ARGV[1])) do note_error(error) end
for _, wait in ipairs(cmsgpack.unpack(ARGV[2])) do note_wait(wait[1], wait[2]) end
return 0
