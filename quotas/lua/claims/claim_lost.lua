#!lua flags=allow-oom
-- Claims envelopes that are marked as claimed but are in no claim, because their claim was deleted: by an operator, or
-- by Redis if it evicts keys. The new claim ends like that of a dead worker: once the fold has read everything recorded
-- before, the envelopes left in it may be granted again. Scans a limited number of envelopes per call.
--
-- KEYS[1] prefix
-- ARGV[1] task, [2] name of the claim, the same for all calls of a sweep, [3] where to continue; '' at first
-- Returns {where to continue, '' at the end; envelopes claimed}

-- include: writers.lua
-- include: claims.lua
-- include: clock.lua
-- include: integers.lua

local WINDOW, MAX_WINDOWS, MAX_OPEN = 1000, 50, 500
local OPEN = 'open '
local task, name, now = ARGV[1], ARGV[2], now_ms()
local member, runs, claimed_count = name .. '|' .. task, {}, 0

-- Returns whether no other claim of the task is in force, so that all marked envelopes are lost.
local function is_unclaimed()
  if redis.call('HGET', P .. ':epoch', 'ready') ~= '1' then return false end
  local values = redis.call('HMGET', task_key(task), 'lane', 'ended', 'closed', 'claims')
  local own = redis.call('ZSCORE', P .. ':claims', member) and 1 or 0
  return values[1] and (values[2] or '') == '' and values[3] ~= '1' and int(values[4]) == own
end

local function claim(writer, attempt, sequence, size)
  add_run(runs, writer, attempt, sequence, 1, '', size)
  claimed_count = claimed_count + 1
end

local function claim_touched(writer, first, count, size)
  local states = open_states(task, writer, first, count)
  for sequence = first, first + count - 1 do
    if not states[sequence] then claim(writer, 0, sequence, size) end
  end
end

local function scan_window(writer, first, size)
  for _, touched in ipairs(bit_runs(touched_key(task, writer), first, WINDOW)) do
    if touched[1] == 1 then
      for _, final in ipairs(bit_runs(final_key(task, writer), touched[2], touched[3])) do
        if final[1] == 0 then claim_touched(writer, final[2], final[3], size) end
      end
    end
  end
end

-- Scans first attempts, one writer after the other. The first window with lost marks ends the call.
local function scan_first_attempts(index, first)
  local writers = {}
  for writer in pairs(writers_of(task)) do writers[#writers + 1] = writer end
  table.sort(writers)
  local size, windows = int(redis.call('HGET', task_key(task), 'chunk')), 0
  while writers[index] and windows < MAX_WINDOWS and #runs == 0 do
    local touched, final = touched_key(task, writers[index]), final_key(task, writers[index])
    if first >= redis.call('STRLEN', touched) * 8 then
      index, first = index + 1, 0
    else
      if count_bits(touched, first, WINDOW) > count_bits(final, first, WINDOW) then
        scan_window(writers[index], first, size)
      end
      first = first + WINDOW
    end
    windows = windows + 1
  end
  if not writers[index] then return OPEN .. '0' end
  return int_text(index) .. ' ' .. int_text(first)
end

-- Scans later attempts.
local function scan_open(cursor)
  local values = redis.call('HSCAN', open_key(task), cursor, 'COUNT', MAX_OPEN)
  for i = 1, #values[2], 2 do
    local state = read_open(values[2][i + 1])
    if state.claimed >= 0 and state.claim ~= name then
      local writer, sequence = string.match(values[2][i], '^(.*):(%d+)$')
      state.claim = name
      write_open(task, values[2][i], state)
      claim(writer, state.claimed, tonumber(sequence), state.size)
    end
  end
  return values[1] == '0' and '' or OPEN .. values[1]
end

if not is_unclaimed() then return { '', 0 } end
local continue_at
if string.sub(ARGV[3], 1, #OPEN) == OPEN then
  continue_at = scan_open(string.sub(ARGV[3], #OPEN + 1))
else
  local index, first = string.match(ARGV[3], '^(%d+) (%d+)$')
  continue_at = scan_first_attempts(tonumber(index or 1), tonumber(first or 0))
end
if #runs > 0 then
  local longest_ms = int(redis.call('HGET', P .. ':epoch', 'claim_ms'))
  open_claim(member, { end_ms = now + longest_ms, lease_end_ms = now, runs = runs })
end
return { continue_at, claimed_count }
