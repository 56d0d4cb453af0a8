-- library
-- include: keys.lua
-- Outcomes that live workers know and no topic has (dispatcher/engine/stats.py), as their heartbeats report.
--
-- A view begun meanwhile does not know the claims under which they were sent. P:unrecorded (hash: task ->
-- `|<worker>|<worker>|`) holds these tasks back. A worker is taken out as a claim is ended, by a ClaimsEnded record with
-- a claim that has the view's start as its number: it follows what the worker recorded, so the fold has read that first.

local UNRECORDED = P .. ':unrecorded'

-- Returns the outcomes without a record that a heartbeat reports: since when (ms), and of which tasks. nil if it
-- reports none.
local function unrecorded_in(packed)
  local is_read, beat = pcall(cmsgpack.unpack, packed or '')
  local extra = is_read and type(beat) == 'table' and beat.extra
  local found = type(extra) == 'table' and extra.unrecorded
  local since_ms = type(found) == 'table' and tonumber(found.since_ms)
  if not since_ms then return nil end
  return { since_ms = since_ms, tasks = type(found.tasks) == 'table' and found.tasks or {} }
end

-- Returns the same of a worker, with since_ms = now if it reports none; nil if it is not alive.
local function unrecorded_of(worker, now)
  local alive_ms = 5000 -- how long a worker counts as alive after a heartbeat
  local seen_ms = redis.call('ZSCORE', P .. ':workers', worker)
  if not seen_ms or tonumber(seen_ms) + alive_ms < now then return nil end
  return unrecorded_in(redis.call('GET', P .. ':worker:' .. worker)) or { since_ms = now, tasks = {} }
end

-- Returns whether outcomes are of claims that this view does not know: they were known before it granted anything.
local function are_older(unrecorded)
  local grants_after_ms = redis.call('HGET', P .. ':epoch', 'grants_after_ms')
  return not grants_after_ms or unrecorded.since_ms < tonumber(grants_after_ms)
end

-- Holds the tasks that a worker reports, if their outcomes are older than this view.
local function hold_unrecorded(worker, unrecorded)
  if not are_older(unrecorded) then return end
  for _, task in ipairs(unrecorded.tasks) do
    local held = redis.call('HGET', UNRECORDED, tostring(task)) or '|'
    if not string.find(held, '|' .. worker .. '|', 1, true) then
      redis.call('HSET', UNRECORDED, tostring(task), held .. worker .. '|')
    end
  end
end

-- Returns the number of the claim that represents such outcomes in this view.
local function number_of_view()
  return redis.call('HGET', P .. ':epoch', 'started_ms') or '0'
end

-- Takes the worker of such a claim out of those that hold its task.
local function release_unrecorded(member)
  local worker, number, task = string.match(member, '^(.*)%.(%d+)|(.*)$')
  if number ~= number_of_view() then return end
  local held = redis.call('HGET', UNRECORDED, task) or '|'
  local first, last = string.find(held, '|' .. worker .. '|', 1, true)
  if not first then return end
  held = string.sub(held, 1, first) .. string.sub(held, last + 1)
  if held == '|' then redis.call('HDEL', UNRECORDED, task) else redis.call('HSET', UNRECORDED, task, held) end
end

-- Calls found(claim) for each task that is held for a worker which no longer reports it.
local function each_recorded(now, found)
  local reported, number = {}, number_of_view()

  local function tasks_of(worker)
    if not reported[worker] then
      local unrecorded = unrecorded_of(worker, now)
      reported[worker] = {}
      for _, task in ipairs(unrecorded and are_older(unrecorded) and unrecorded.tasks or {}) do
        reported[worker][tostring(task)] = true
      end
    end
    return reported[worker]
  end

  local held = redis.call('HGETALL', UNRECORDED)
  for i = 1, #held, 2 do
    for worker in string.gmatch(held[i + 1], '[^|]+') do
      if not tasks_of(worker)[held[i]] then found(worker .. '.' .. number .. '|' .. held[i]) end
    end
  end
end
