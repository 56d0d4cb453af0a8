-- library
-- include: keys.lua
-- include: clock.lua
-- include: control_records.lua
-- The submitter of a task: one at a time, by a lease. The control topic also records takeovers.
local LEASE_MS, REMEMBERED_MS, LOST_LEASES_MS = 5000, 24 * 3600 * 1000, 600 * 1000

local function submitting_key(task)
  return P .. ':submitting:' .. task
end

-- Returns whether a missing lease was never taken: no leases were lost with an earlier view or in a restart of Redis,
-- or that was long ago.
local function remembers_leases(now)
  local epoch = redis.call('HMGET', P .. ':epoch', 'ready', 'first', 'grants_after_ms')
  return epoch[1] == '1' and (epoch[2] == '1' or now - tonumber(epoch[3] or 0) > LOST_LEASES_MS)
end

-- Takes the lease. Returns {state, who, since_ms, until_ms}. state: 'fresh' (ours; not taken before within a day),
-- 'again' (ours; taken before, or the view is too new to know), 'held' (by who).
local function take_lease(task, submitter, who)
  local key, now = submitting_key(task), now_ms()
  local had = redis.call('HMGET', key, 'id', 'who', 'since_ms', 'until_ms')
  if had[1] and had[1] ~= submitter and tonumber(had[4]) > now then
    -- It ends later only if the clock was set back. A holder that is alive renews it.
    local until_ms = math.min(tonumber(had[4]), now + LEASE_MS)
    if until_ms < tonumber(had[4]) then redis.call('HSET', key, 'until_ms', int_text(until_ms)) end
    return { 'held', had[2], tonumber(had[3]), until_ms }
  end
  -- Later than all earlier leases, even if the clock was set back: takeovers count in this order.
  local since = math.max(now, tonumber(had[3] or 0) + 1)
  redis.call('HSET', key, 'id', submitter, 'who', who, 'since_ms', int_text(since), 'until_ms', int_text(now + LEASE_MS))
  redis.call('PEXPIRE', key, REMEMBERED_MS)
  return { not had[1] and remembers_leases(now) and 'fresh' or 'again', who, since, now + LEASE_MS }
end

-- Returns the control topic's records of a task's submission, by position.
local function entries_of(task)
  local packed, entries = redis.call('HGET', task_key(task), 'submission'), {}
  for i, got in ipairs(packed and cmsgpack.unpack(packed) or {}) do entries[i] = read_entry(got) end
  return entries
end

-- Returns whether a seal at a position counts. It does if its submitter holds the lease, since no takeover can precede
-- it, or was the current submitter at that position according to the topic.
local function may_seal(task, submitter, position)
  if submitter == '' or redis.call('HGET', submitting_key(task), 'id') == submitter then return true end
  local known = redis.call('HMGET', task_key(task), 'record_pos', 'submitter')
  local current, taken = known[2] or '', 0
  for _, entry in ipairs(entries_of(task)) do
    local is_before = entry.position < position and entry.tag == 'o'
    if is_before and entry.at_ms > taken then current, taken = entry.by, entry.at_ms end
  end
  return not known[1] or current == submitter
end
