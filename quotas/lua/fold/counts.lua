-- library
-- include: envelopes.lua
-- include: integers.lua
-- include: clock.lua
-- Counts of tasks, read once per call and written at its end.
-- constants: COUNT_FIELDS
local OUTCOMES = #COUNT_FIELDS
local RATE_WINDOW_MS, RATE_FRESH_MS = 500, 5000

local function counts_of(task)
  local counts = call.counts[task]
  if counts then return counts end
  local values = redis.call('HMGET', task_key(task), 'ended', 'closed', 'lane', 'sealed', 'total', 'published',
    'finals', 'first_outcome_ms', 'sealed_pos')
  counts = { task = task, ended = (values[1] or '') ~= '', known = values[3], sealed = values[4] == '1', writers = {} }
  counts.seal_pos = values[9]
  counts.over = counts.ended or values[2] == '1'
  counts.total, counts.published = int(values[5]), int(values[6])
  counts.finals, counts.first_ms = int(values[7]), int(values[8])
  counts.by_code = { [0] = 0, 0, 0, 0, 0 }
  counts.has_open = redis.call('EXISTS', open_key(task)) == 1
  call.counts[task] = counts
  call.counted[#call.counted + 1] = task
  return counts
end

-- Remembers a writer, whose bitmaps `keep_unknown` keeps or lets expire.
local function keep_writer(counts, writer)
  counts.writers[writer] = true
end

local function added_to(counts)
  local added = 0
  for code = 0, OUTCOMES - 1 do added = added + counts.by_code[code] end
  return added
end

-- Keeps the time of the first record that added an outcome.
local function note_time(counts, at_ms)
  if not counts.at_ms and added_to(counts) > 0 then counts.at_ms = at_ms end
end

-- Returns the recent rate in targets per second: a mean over windows of at least half a second, weighted by length.
local function fold_rate(key, added, now)
  local values = redis.call('HMGET', key, 'rate', 'rate_n', 'rate_ms')
  local rate, count, since = tonumber(values[1] or 0) * 1000, int(values[2]) + added, int(values[3])
  if since > now then since = 0 end -- the clock was set back
  local elapsed_ms = now - since
  if since > 0 and elapsed_ms < RATE_WINDOW_MS then return { 'rate_n', int_text(count) } end
  if since > 0 then
    local latest = div(count * 1000000, elapsed_ms)
    local mean = rate + div((latest - rate) * elapsed_ms, elapsed_ms + 1000)
    rate = (rate == 0 or elapsed_ms > RATE_FRESH_MS) and latest or mean
    count = 0
  end
  return { 'rate', string.format('%.3f', rate / 1000), 'rate_n', int_text(count), 'rate_ms', int_text(now) }
end

-- Sets an expiry on state folded before the task's record is known, since the record may never come. Once the record is
-- known, `keep` in task_end.lua removes the expiry.
local function keep_unknown(counts)
  local keys = { task_key(counts.task), open_key(counts.task) }
  for writer in pairs(counts.writers) do
    keys[#keys + 1] = final_key(counts.task, writer)
    keys[#keys + 1] = touched_key(counts.task, writer)
  end
  for i, key in ipairs(keys) do
    if not counts.known then
      redis.call('PEXPIRE', key, TOMBSTONE_MS)
    elseif i > 1 then
      redis.call('PERSIST', key)
    end
  end
end

local function save_count(counts, now)
  local key, added = task_key(counts.task), added_to(counts)
  for code = 0, OUTCOMES - 1 do
    local count = counts.by_code[code]
    if count > 0 then redis.call('HINCRBY', key, COUNT_FIELDS[code + 1], int_text(count)) end
  end
  if added > 0 then
    redis.call('HINCRBY', key, 'finals', int_text(added))
    redis.call('HSET', key, unpack(fold_rate(key, added, now)))
    if counts.first_ms == 0 and counts.at_ms then
      redis.call('HSET', key, 'first_outcome_ms', int_text(counts.at_ms))
    end
  end
  if not counts.ended then keep_unknown(counts) end
end

local function save_counts()
  local now = now_ms()
  if call.repeats > 0 then redis.call('HINCRBY', P .. ':stats', 'repeats', int_text(call.repeats)) end
  for _, task in ipairs(call.counted) do save_count(call.counts[task], now) end
end
