-- library
-- include: envelopes.lua
-- include: claim_form.lua
-- Claims: P:claims (sorted set of `<claim>|<task>` by end), P:claim:<member>. Envelopes that are recorded or given back
-- are cut out of their claim, so the envelopes left at its end are the unrecorded ones. Nothing else holds this
-- information. So a claim is kept until it is closed, however long that takes.

local function claim_key(member)
  return P .. ':claim:' .. member
end

local function task_of_claim(member)
  return string.sub(member, string.find(member, '|', 1, true) + 1)
end

local function worker_of_claim(member)
  return string.match(string.sub(member, 1, string.find(member, '|', 1, true) - 1), '^(.*)%.%d+$')
end

local function add_run(runs, writer, attempt, first, count, paid, size)
  local last = runs[#runs]
  local same = last and last.writer == writer and last.attempt == attempt and last.paid == paid and last.size == size
  if same and last.first + last.count == first then
    last.count = last.count + count
  else
    runs[#runs + 1] = { writer = writer, attempt = attempt, first = first, count = count, paid = paid, size = size }
  end
end

-- Counts granted targets by what became of them (used, returned, expired); `save_tally` writes the sums. At any time
-- the targets granted to a tier are the sum of these and of the targets in live claims.
local function tally(kind, run, targets)
  if run.paid == '' then return end
  local field = kind .. ':' .. run.paid
  call.tallied[field] = (call.tallied[field] or 0) + targets
end

local function save_tally()
  for field, targets in pairs(call.tallied) do
    if targets > 0 then redis.call('HINCRBY', P .. ':stats', field, int_text(targets)) end
  end
  call.tallied = {}
end

local function write_claim(member, claim)
  redis.call('SET', claim_key(member), pack_claim(claim))
end

-- Returns the claim, which is read once per call; false if it has ended.
local function claim_of(member)
  if call.claims[member] == nil then
    local packed = redis.call('GET', claim_key(member))
    call.claims[member] = packed and read_claim(packed)
  end
  return call.claims[member]
end

local function forget_claim(member)
  redis.call('UNLINK', claim_key(member))
  redis.call('ZREM', P .. ':claims', member)
end

local function count_claim_less(member)
  local key = task_key(task_of_claim(member))
  -- Below 0: the tombstone has expired meanwhile, and nothing else would delete the new hash.
  if redis.call('HINCRBY', key, 'claims', -1) < 0 then redis.call('HDEL', key, 'claims') end
end

local function close_claim(member)
  forget_claim(member)
  count_claim_less(member)
end

-- Drops a claim that is listed but cannot be read, because it was deleted.
local function drop_lost_claim(member)
  if redis.call('ZREM', P .. ':claims', member) == 1 then count_claim_less(member) end
end

local function open_claim(member, claim)
  if redis.call('ZADD', P .. ':claims', int_text(claim.end_ms), member) == 1 then
    call.undo[#call.undo + 1] = function() forget_claim(member) end
    redis.call('HINCRBY', task_key(task_of_claim(member)), 'claims', 1)
    call.undo[#call.undo + 1] = function() count_claim_less(member) end
  else
    -- The call is a repeat whose first answer has expired: the claim still holds the envelopes of the first call.
    local before = claim_of(member)
    for _, run in ipairs(before and before.runs or {}) do claim.runs[#claim.runs + 1] = run end
    if before then claim.granted_ms = before.granted_ms end
  end
  write_claim(member, claim)
end

-- Returns the part of a run with the sequences from `first` up to but not including `beyond`.
local function part_of(run, first, beyond)
  local writer, attempt, paid, size = run.writer, run.attempt, run.paid, run.size
  return { writer = writer, attempt = attempt, first = first, count = beyond - first, paid = paid, size = size }
end

local cut_claim
do
  -- Returns the ranges {first, beyond} sorted, with overlapping and adjacent ones merged.
  local function merged(ranges)
    local disjoint = {}
    table.sort(ranges, function(a, b) return a.first < b.first end)
    for _, range in ipairs(ranges) do
      local last = disjoint[#disjoint]
      if last and range.first <= last.beyond then
        last.beyond = math.max(last.beyond, range.beyond)
      else
        disjoint[#disjoint + 1] = range
      end
    end
    return disjoint
  end

  local function attempt_key(run)
    return run.writer .. ' ' .. int_text(run.attempt)
  end

  -- Returns spans {writer, attempt, first, count} as ranges by writer and attempt.
  local function ranges_of(spans)
    local ranges = {}
    for _, span in ipairs(spans) do
      local key = attempt_key(span)
      ranges[key] = ranges[key] or {}
      ranges[key][#ranges[key] + 1] = { first = span.first, beyond = span.first + span.count }
    end
    for key, list in pairs(ranges) do ranges[key] = merged(list) end
    return ranges
  end

  -- Returns the index of the first range that ends after a sequence. A binary search: claims and records may have many.
  local function first_behind(list, sequence)
    local low, high = 1, #list + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if list[middle].beyond > sequence then high = middle else low = middle + 1 end
    end
    return low
  end

  -- Cuts spans out of a claim; returns the runs that it held of them. `save_claims` writes the rest.
  function cut_claim(member, spans)
    local claim, kept, taken = claim_of(member), {}, {}
    if not claim then return taken end
    local ranges = ranges_of(spans)
    for _, run in ipairs(claim.runs) do
      local list, from, beyond = ranges[attempt_key(run)] or {}, run.first, run.first + run.count
      for i = first_behind(list, from), #list do
        local range = list[i]
        if range.first >= beyond then break end
        local upto = math.min(range.beyond, beyond)
        if from < range.first then kept[#kept + 1] = part_of(run, from, range.first) end
        taken[#taken + 1] = part_of(run, math.max(from, range.first), upto)
        from, claim.changed = upto, true
      end
      if from == run.first then
        kept[#kept + 1] = run
      elseif from < beyond then
        kept[#kept + 1] = part_of(run, from, beyond)
      end
    end
    claim.runs = kept
    return taken
  end
end

local function save_claims()
  for member, claim in pairs(call.claims) do
    if claim and claim.changed then
      if #claim.runs > 0 then write_claim(member, claim) else close_claim(member) end
    end
  end
  call.claims = {}
end
