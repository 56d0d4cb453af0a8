#!lua flags=allow-oom
-- Stores errors and waits of a worker's sends: the errors by task, and how long tasks have been in their channels,
-- or have waited for their outcomes to be stored.
--
-- KEYS[1] prefix
-- ARGV[1] msgpack of {task, reason, count, at_ms, attempt, retry_ms,
--   unsent, unsent_ms, unsent_reason}...; [2] msgpack of {task, ms, cause}...
-- Returns 0

-- include: why.lua
-- include: clock.lua

-- A task that was requested within this time is counted by the ledger (causes.lua).
local NOT_COUNTED_MS = 2500
local now = now_ms()

local function note_error(error)
  local key = task_key(error[1])
  local values = redis.call('HMGET', key, 'lane', 'error_ms', 'unsent_ms')
  if not values[1] then return end
  local failed_ms, unsent_ms = int(values[2]), int(values[3])
  redis.call('HINCRBY', key, 'errors', int_text(error[3]))
  redis.call('HINCRBY', key, 'unsent', int_text(error[7]))
  if error[3] > 0 and failed_ms <= error[4] then
    redis.call('HSET', key, 'error', error[2], 'error_ms', int_text(error[4]), 'error_attempt', int_text(error[5]))
  end
  if error[7] > 0 and unsent_ms <= error[8] then
    redis.call('HSET', key, 'unsent_reason', error[9], 'unsent_ms', int_text(error[8]))
  end
  if math.max(failed_ms, unsent_ms) <= math.max(error[4], error[8]) then
    redis.call('HSET', key, 'retry_ms', int_text(error[6]))
  end
end

local function note_wait(id, ms, cause)
  local values = redis.call('HMGET', task_key(id), 'lane', 'ended', 'why_ms', 'created_ms', 'start_ms')
  if not values[1] or (values[2] or '') ~= '' then return end
  local task = { id = id, why_ms = int(values[3]) }
  local uncounted = now - math.max(task.why_ms, int(values[4]), int(values[5]))
  if uncounted >= NOT_COUNTED_MS then add_causes(task, { [cause] = math.min(uncounted, ms) }, now) end
end

for _, error in ipairs(cmsgpack.unpack(ARGV[1])) do note_error(error) end
for _, wait in ipairs(cmsgpack.unpack(ARGV[2])) do note_wait(wait[1], wait[2], wait[3]) end
return 0
