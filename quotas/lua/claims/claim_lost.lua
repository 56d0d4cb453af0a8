#!lua flags=allow-oom
-- Claims envelopes that are marked as claimed but in no claim, because their claim was deleted: by an operator, or by
-- Redis if it evicts keys. The new claim ends like that of a dead worker: once the fold has read everything recorded
-- before, the envelopes left in it may be granted again. Scans a limited number of envelopes per call.
--
-- KEYS[1] prefix
-- ARGV[1] task, [2] name of the claim, the same for all calls of a sweep, [3] where to continue; '' at first
-- Returns {where to continue, '' at the end; envelopes claimed}

-- include: writers.lua
-- include: claims.lua
-- include: clock.lua
-- include: integers.lua

local WINDOW, MOST_WINDOWS, MOST_OPEN = 1000, 50, 500
local OPEN = 'open '
local task, name, now = ARGV[1], ARGV[2], now_ms()
local member, runs, found = name .. '|' .. task, {}, 0

-- Returns whether no other claim of the task is in force, so that all marked envelopes are lost.
local function is_unclaimed()
  if redis.call('HGET', P .. ':epoch', 'ready') ~= '1' then return false end
  local got = redis.call('HMGET', task_key(task), 'lane', 'ended', 'closed', 'claims')
  local own = redis.call('ZSCORE', P .. ':claims', member) and 1 or 0
  return got[1] and (got[2] or '') == '' and got[3] ~= '1' and int(got[4]) == own
end

local function take(writer, attempt, sequence, size)
  add_run(runs, writer, attempt, sequence, 1, '', size)
  found = found + 1
end

local function take_touched(writer, first, count, size)
  local states = open_states(task, writer, first, count)
  for sequence = first, first + count - 1 do
    if not states[sequence] then take(writer, 0, sequence, size) end
  end
end

local function look_at_window(writer, first, size)
  for _, touched in ipairs(bit_runs(touched_key(task, writer), first, WINDOW)) do
    if touched[1] == 1 then
      for _, final in ipairs(bit_runs(final_key(task, writer), touched[2], touched[3])) do
        if final[1] == 0 then take_touched(writer, final[2], final[3], size) end
      end
    end
  end
end

-- Scans first attempts, one writer after the other. The first window with lost marks ends the call.
local function look_at_bits(index, first)
  local writers = {}
  for writer in pairs(writers_of(task)) do writers[#writers + 1] = writer end
  table.sort(writers)
  local size, windows = int(redis.call('HGET', task_key(task), 'chunk')), 0
  while writers[index] and windows < MOST_WINDOWS and #runs == 0 do
    local touched, final = touched_key(task, writers[index]), final_key(task, writers[index])
    if first >= redis.call('STRLEN', touched) * 8 then
      index, first = index + 1, 0
    else
      if count_bits(touched, first, WINDOW) > count_bits(final, first, WINDOW) then
        look_at_window(writers[index], first, size)
      end
      first = first + WINDOW
    end
    windows = windows + 1
  end
  if not writers[index] then return OPEN .. '0' end
  return whole(index) .. ' ' .. whole(first)
end

-- Scans later attempts.
local function look_at_open(cursor)
  local got = redis.call('HSCAN', open_key(task), cursor, 'COUNT', MOST_OPEN)
  for i = 1, #got[2], 2 do
    local state = read_open(got[2][i + 1])
    if state.claimed >= 0 and state.claim ~= name then
      local writer, sequence = string.match(got[2][i], '^(.*):(%d+)$')
      state.claim = name
      write_open(task, got[2][i], state)
      take(writer, state.claimed, tonumber(sequence), state.size)
    end
  end
  return got[1] == '0' and '' or OPEN .. got[1]
end

if not is_unclaimed() then return { '', 0 } end
local goes_on
if string.sub(ARGV[3], 1, #OPEN) == OPEN then
  goes_on = look_at_open(string.sub(ARGV[3], #OPEN + 1))
else
  local index, first = string.match(ARGV[3], '^(%d+) (%d+)$')
  goes_on = look_at_bits(tonumber(index or 1), tonumber(first or 0))
end
if #runs > 0 then
  local longest_ms = int(redis.call('HGET', P .. ':epoch', 'claim_ms'))
  open_claim(member, { end_ms = now + longest_ms, lease_end_ms = now, runs = runs })
end
return { goes_on, found }
