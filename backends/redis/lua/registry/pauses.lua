-- library
-- include: keys.lua

local MOST_PAUSES = 100

-- Keeps the set of paused channels in sync with the settings, for readers that must not read all settings.
local function keep_paused(field, value)
  local channel = string.match(field, '^channel_paused:(.*)$')
  if channel then redis.call(value == '1' and 'SADD' or 'SREM', P .. ':paused', channel) end
end

-- Forgets a pause that was noted for a record that does not count.
local function drop_pause(key, field, position)
  local kept = {}
  for entry in string.gmatch(redis.call('HGET', key, field) or '', '%S+') do
    if string.sub(entry, 1, #position + 1) ~= position .. '=' then kept[#kept + 1] = entry end
  end
  if #kept > 0 then redis.call('HSET', key, field, table.concat(kept, ' ')) else redis.call('HDEL', key, field) end
end

-- Stores when a task or a channel was paused or resumed, in a field of a hash: `<position>=<1 or 0>@<ms>`, separated by
-- spaces, in the order of the topic even if applied in another order. Only the last MOST_PAUSES are kept.
local function note_pause(key, field, position, value, at_ms)
  local entry = position .. '=' .. value .. '@' .. at_ms
  local noted = {}
  for other in string.gmatch(redis.call('HGET', key, field) or '', '%S+') do
    if other == entry then return end
    noted[#noted + 1] = other
  end
  noted[#noted + 1] = entry
  table.sort(noted)
  redis.call('HSET', key, field, table.concat(noted, ' ', math.max(1, #noted - MOST_PAUSES + 1)))
end
