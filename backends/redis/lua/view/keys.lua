-- library
-- Names of keys, as in backends/redis/keys.py. P is the prefix.
local P = KEYS[1]
-- How long an ended task is remembered, as in dispatcher/wire/retention.py.
local TOMBSTONE_MS = 16 * 24 * 3600 * 1000

local function task_key(task)
  return P .. ':task:' .. task
end

local function lane_key(topic)
  return P .. ':lane:' .. topic
end

local function int_text(number)
  return string.format('%.0f', number)
end
