-- library
-- include: envelopes.lua
-- Claims: P:claims (sorted set of `<claim>|<task>` by end), P:claim:<member>: msgpack of {end_ms, lease_end_ms, runs};
-- a run is {writer, attempt, first, count, the tier whose credit paid for it or '', targets in each envelope}. What is
-- recorded or given back is cut out, so that what is left at its end is what was not. That is known nowhere else, so a
-- claim is kept until it is closed, however long that takes.
local claims_read, tallied = {}, {}

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
  local same = last and last[1] == writer and last[2] == attempt and last[5] == paid and last[6] == size
  if same and last[3] + last[4] == first then
    last[4] = last[4] + count
  else
    runs[#runs + 1] = { writer, attempt, first, count, paid, size }
  end
end

-- Counts what became of granted targets (used, returned, expired); `save_tally` writes the sums. At any time what was
-- granted to a tier is the sum of these and of what live claims hold.
local function tally(what, run, count)
  if type(run[5]) ~= 'string' or run[5] == '' then return end
  local field = what .. ':' .. run[5]
  tallied[field] = (tallied[field] or 0) + count * run[6]
end

local function save_tally()
  for field, targets in pairs(tallied) do
    if targets > 0 then redis.call('HINCRBY', P .. ':stats', field, whole(targets)) end
  end
  tallied = {}
end

local function write_claim(member, claim)
  redis.call('SET', claim_key(member), cmsgpack.pack({ claim.end_ms, claim.lease_end_ms, claim.runs }))
end

-- The claim, read once a call; false if it has ended.
local function claim_of(member)
  if claims_read[member] == nil then
    local packed = redis.call('GET', claim_key(member))
    local got = packed and cmsgpack.unpack(packed)
    claims_read[member] = got and { end_ms = got[1], lease_end_ms = got[2], runs = got[3] }
  end
  return claims_read[member]
end

local function close_claim(member)
  local key = task_key(task_of_claim(member))
  redis.call('UNLINK', claim_key(member))
  redis.call('ZREM', P .. ':claims', member)
  -- Below 0: the tombstone has expired meanwhile, and nobody would take such a hash away.
  if redis.call('HINCRBY', key, 'claims', -1) < 0 then redis.call('HDEL', key, 'claims') end
end

local function open_claim(member, claim)
  if redis.call('ZADD', P .. ':claims', whole(claim.end_ms), member) == 1 then
    redis.call('HINCRBY', task_key(task_of_claim(member)), 'claims', 1)
    undo[#undo + 1] = function() close_claim(member) end
  else
    -- The call was made before, and its answer is forgotten by now: what it claimed then it still holds.
    local before = claim_of(member)
    for _, run in ipairs(before and before.runs or {}) do claim.runs[#claim.runs + 1] = run end
  end
  write_claim(member, claim)
end

-- Takes sequences out of a claim; returns the runs it held of them. `save_claims` writes what is left.
local function cut_claim(member, writer, attempt, first, count)
  local claim, kept, taken, beyond = claim_of(member), {}, {}, first + count
  if not claim then return taken end
  for _, run in ipairs(claim.runs) do
    local last = run[3] + run[4]
    if run[1] ~= writer or run[2] ~= attempt or last <= first or run[3] >= beyond then
      kept[#kept + 1] = run
    else
      local from, till = math.max(run[3], first), math.min(last, beyond)
      if run[3] < from then kept[#kept + 1] = { writer, attempt, run[3], from - run[3], run[5], run[6] } end
      taken[#taken + 1] = { writer, attempt, from, till - from, run[5], run[6] }
      if till < last then kept[#kept + 1] = { writer, attempt, till, last - till, run[5], run[6] } end
      claim.changed = true
    end
  end
  claim.runs = kept
  return taken
end

local function save_claims()
  for member, claim in pairs(claims_read) do
    if claim and claim.changed then
      if #claim.runs > 0 then write_claim(member, claim) else close_claim(member) end
    end
  end
  claims_read = {}
end
