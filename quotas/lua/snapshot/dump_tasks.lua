#!lua flags=allow-oom
-- Reads complete tasks for a snapshot, each as of one moment, until about 256 kB are read. Claims and time-dependent
-- fields are left out. If a task has many open envelopes, they are copied, to be read in pages.
--
-- KEYS[1] prefix
-- ARGV tasks
-- Returns {task...} for the tasks read, in order: {id, ms kept, {field, value...}, {writer, final bits...}, {name,
--   open envelope...}, number of open envelopes in the copy instead}; a task that is not known (any more) is {id}

-- include: writers.lua

local MAX_BYTES, MAX_OPEN, COPY_KEPT_MS = 262144, 5000, 600000
local VOLATILE = {
  claims = true, cap_bucket = true, cap_us = true, cap_rate = true, why_ms = true, error = true, errors = true,
  unsent = true, unsent_ms = true, unsent_reason = true,
  error_ms = true, error_attempt = true, retry_ms = true, lane_counted = true,
  weight_counted = true, rate = true, rate_n = true, rate_ms = true,
}
local read = 0

local function fields_of(task)
  local kept, values = {}, redis.call('HGETALL', task_key(task))
  for i = 1, #values, 2 do
    local name = values[i]
    if not VOLATILE[name] then
      kept[#kept + 1], kept[#kept + 2] = name, values[i + 1]
      read = read + #name + #values[i + 1]
    end
  end
  return kept
end

local function bits_of(task)
  local bitmaps = {}
  for writer in pairs(writers_of(task)) do
    local bits = redis.call('GET', final_key(task, writer))
    if bits then
      bitmaps[#bitmaps + 1], bitmaps[#bitmaps + 2] = writer, bits
      read = read + #bits
    end
  end
  return bitmaps
end

local function open_of(task)
  local count = redis.call('HLEN', open_key(task))
  if count <= MAX_OPEN then
    read = read + 40 * count
    return redis.call('HGETALL', open_key(task)), 0
  end
  local copy = P .. ':dump:' .. task
  redis.call('COPY', open_key(task), copy, 'REPLACE')
  redis.call('PEXPIRE', copy, COPY_KEPT_MS)
  return {}, count
end

local answer = {}
for _, task in ipairs(ARGV) do
  if redis.call('HEXISTS', task_key(task), 'lane') == 1 then
    local fields, bits = fields_of(task), bits_of(task)
    local open, copied = open_of(task)
    answer[#answer + 1] = { task, redis.call('PTTL', task_key(task)), fields, bits, open, copied }
  else
    answer[#answer + 1] = { task }
  end
  if read > MAX_BYTES then break end
end
return answer
