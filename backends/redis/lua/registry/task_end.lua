-- library
-- include: keys.lua
-- include: seals.lua

-- Returns whether every target of a sealed task has an outcome and its end is not yet written. False while the view is
-- not ready: a view being rebuilt knows too little. Most tasks that are asked about are not over, so that comes first.
local function is_complete(task)
  local got = redis.call('HMGET', task_key(task), 'lane', 'sealed', 'total', 'finals', 'ended', 'sealed_pos')
  -- finals may exceed total: the task was closed unsealed, and its seal came later and leaves writers out.
  local is_over = tonumber(got[4] or 0) >= tonumber(got[3] or 0)
  if not (got[1] and got[2] == '1' and (got[5] or '') == '' and is_over) then return false end
  if redis.call('HGET', P .. ':epoch', 'ready') ~= '1' then return false end
  return is_settled(got[6], control_cursor())
end

-- Returns the keys that hold the state of a task's envelopes.
local function envelope_keys(task)
  local keys = { P .. ':open:' .. task }
  for writer in string.gmatch('0,' .. (redis.call('HGET', task_key(task), 'writers') or ''), '[^,]+') do
    keys[#keys + 1] = P .. ':final:' .. task .. ':' .. writer
    keys[#keys + 1] = P .. ':touched:' .. task .. ':' .. writer
  end
  return keys
end

-- Keeps the envelope state for as long as the task lives. State folded before the task was known has an expiry.
local function keep(task)
  for _, key in ipairs(envelope_keys(task)) do redis.call('PERSIST', key) end
end

-- Deletes the envelope state, which an ended task does not need.
local function clear(task)
  for _, key in ipairs(envelope_keys(task)) do redis.call('UNLINK', key) end
end

-- Deletes an ended task's messages, which may be most of its data. Called after each of the end, the record and the
-- edit, since any of them may come last.
local function drop_messages(task)
  local key = task_key(task)
  if (redis.call('HGET', key, 'ended') or '') == '' then return end
  redis.call('HDEL', key, 'rate', 'rate_n', 'rate_ms', 'cap_bucket', 'cap_us', 'cap_rate')
  local got = redis.call('HMGET', key, 'record', 'override')
  if got[1] then
    local record = cmsgpack.unpack(got[1])
    record[7] = ''
    redis.call('HSET', key, 'record', cmsgpack.pack(record))
  end
  if got[2] then redis.call('HSET', key, 'override', string.match(got[2], '^%d+') .. ':{}') end
end
