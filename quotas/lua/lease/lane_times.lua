-- library
-- include: pools.lua
-- Virtual times of lanes in a pool, in the hash P:vt:<pool>: `<tier> <time> <carry> <owed>`; owed: by how much more
-- than a window it may lag, for the time in which it had backlog and nobody held it. At most LONGEST_WAIT_WINDOWS are
-- owed: ten minutes. A lane is granted at least one envelope at a time, and about one of QUANTA parts of its window.
local LONGEST_WAIT_WINDOWS = 2400
local QUANTA = 8

-- Once the pool is refilled and all demand is announced.
local function window_of(share)
  share.window = share.window or div(share.depth, math.max(share.busy, 1))
  return share.window
end

local function read_time(text)
  if not text then return nil end
  local tier, time, carry, owed = string.match(text, '^(%S+) (%-?%d+) (%d+) ?(%d*)$')
  return { tier = tier, time = int(time), carry = int(carry), owed = owed ~= '' and int(owed) or 0 }
end

local function load_times(pool, names)
  for from = 1, #names, 1000 do
    local to = math.min(from + 999, #names)
    local got = redis.call('HMGET', P .. ':vt:' .. pool.name, unpack(names, from, to))
    for i = from, to do pool.lanes[names[i]] = read_time(got[i - from + 1]) end
  end
end

local function save_times(pool)
  local args = {}
  for lane, entry in pairs(pool.lanes) do
    args[#args + 1] = lane
    args[#args + 1] = string.format('%s %.0f %.0f %.0f', entry.tier, entry.time, entry.carry, entry.owed)
  end
  for from = 1, #args, 1000 do
    redis.call('HSET', P .. ':vt:' .. pool.name, unpack(args, from, math.min(from + 999, #args)))
  end
  if #args > 0 then redis.call('PEXPIRE', P .. ':vt:' .. pool.name, POOL_KEPT_MS) end
end

-- A lane asks: one that was idle starts at its tier's present time, one that lags is owed at most a window, and what it
-- lagged more when it was taken up, if it waited with nobody to hold it.
local function enter_pool(pool, lane, tier, weight, idle, waited)
  local share, entry = pool.tiers[tier], pool.lanes[lane]
  if not entry or entry.tier ~= tier then
    entry = { tier = tier, time = share.time, carry = 0, owed = 0 }
    pool.lanes[lane] = entry
  end
  local window = window_of(share)
  local lag = math.max(share.time - window - entry.time, 0)
  if waited then
    lag = math.min(lag, LONGEST_WAIT_WINDOWS * window)
    if lag > 0 then share.pull = share.pull + mul_div(lag + window, weight, math.max(share.busy, weight)) end
  end
  entry.owed = waited and lag or math.min(entry.owed, lag)
  if idle then entry.owed = 0 end
  local floor = idle and share.time or share.time - window - entry.owed
  if entry.time < floor then entry.time, entry.carry = floor, 0 end
end

-- After all lanes of a call have entered: the tier's time is that of its lanes in the mean, so those that come from far
-- behind draw it back, and the others wait until they have caught up.
local function settle_in(pool)
  for _, tier in ipairs(TIERS) do
    local share = pool.tiers[tier]
    share.time, share.pull = share.time - share.pull, 0
  end
end

-- Whether the bucket stands half full: the lanes that share it are not using their part.
local function pool_spares(pool, tier)
  local share = pool.tiers[tier]
  return share.bucket > 0 and 2 * share.bucket >= share.depth
end

-- Whether the lane may draw. Ahead by more than a window it may only while the bucket stands half full: its peers are
-- not using their part then.
local function pool_allows(pool, lane, tier)
  local share, entry = pool.tiers[tier], pool.lanes[lane]
  if share.bucket <= 0 then return false end
  return entry.time <= share.time + window_of(share) or 2 * share.bucket >= share.depth
end

-- What a lane is granted at once: an eighth of its window (at least one envelope, whatever this says).
local function quantum_of(pool, tier, weight)
  local share = pool.tiers[tier]
  return div(mul_div(share.depth, weight, math.max(share.busy, weight)), QUANTA)
end

-- The bucket may go below zero by less than one envelope. The tier's time moves on by its part of what is granted;
-- before that, where the lane draws what its peers leave, so far that the lane is ahead by a window only: for that it
-- does not owe them. (By all that such a lane draws the tier's time must not move: with envelopes larger than windows
-- those behind would lose their turn for one late call.)
local function charge_pool(pool, lane, tier, weight, targets)
  local share, entry, amount = pool.tiers[tier], pool.lanes[lane], targets * UNIT
  entry.spare = entry.time > share.time + window_of(share)
  if entry.spare then share.time = entry.time - window_of(share) end
  local among = math.max(share.busy, weight)
  share.bucket = share.bucket - amount
  local ahead = div(amount + entry.carry, weight)
  entry.carry = amount + entry.carry - ahead * weight
  entry.time = entry.time + ahead
  ahead = div(amount + share.carry, among)
  share.carry = amount + share.carry - ahead * among
  share.time = share.time + ahead
end

-- Takes back what was granted and not used; a bucket does not rise above its depth by it.
local function refund_pool(pool, lane, tier, weight, targets)
  local share = pool.tiers[tier]
  share.bucket = math.min(share.bucket + targets * UNIT, math.max(share.bucket, share.depth))
  if not pool.lanes[lane] then load_times(pool, { lane }) end
  local entry = pool.lanes[lane]
  if entry and entry.tier == tier and weight > 0 then entry.time = entry.time - div(targets * UNIT, weight) end
end
