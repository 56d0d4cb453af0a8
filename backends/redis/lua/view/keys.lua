-- library
-- Names of keys, as in backends/redis/keys.py. P is the prefix.
local P = KEYS[1]
-- TOMBSTONE_MS: how long an ended task is remembered.
-- constants: TOMBSTONE_MS

local function task_key(task)
  return P .. ':task:' .. task
end

local function lane_key(topic)
  return P .. ':lane:' .. topic
end

local function int_text(number)
  return string.format('%.0f', number)
end
