-- library
-- include: pools.lua
-- Virtual times of lanes in a pool, in the hash P:vt:<pool>: `<tier> <time> <carry> <owed>`. owed: how much further
-- than a window the lane may lag, because it had backlog while no worker held it; at most LONGEST_WAIT_WINDOWS, which
-- is ten minutes. A lane is granted about 1/QUANTA of its window at a time, and at least one envelope.
local LONGEST_WAIT_WINDOWS = 2400
local QUANTA = 8

-- Returns a lane's window. Call it after the pool is refilled and all demand is announced.
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
    local values = redis.call('HMGET', P .. ':vt:' .. pool.name, unpack(names, from, to))
    for i = from, to do pool.lanes[names[i]] = read_time(values[i - from + 1]) end
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

-- Enters a lane that requests credit. A lane that was idle starts at its tier's current time. A lane that lags is owed
-- at most a window, plus, if it was unattended, its further lag at the time when a worker took it.
local function enter_pool(pool, lane, tier, weight, idle, was_unattended)
  local share, entry = pool.tiers[tier], pool.lanes[lane]
  if not entry or entry.tier ~= tier then
    entry = { tier = tier, time = share.time, carry = 0, owed = 0 }
    pool.lanes[lane] = entry
  end
  local window = window_of(share)
  local lag = math.max(share.time - window - entry.time, 0)
  if was_unattended then
    lag = math.min(lag, LONGEST_WAIT_WINDOWS * window)
    if lag > 0 then share.pull = share.pull + mul_div(lag + window, weight, math.max(share.busy, weight)) end
  end
  entry.owed = was_unattended and lag or math.min(entry.owed, lag)
  if idle then entry.owed = 0 end
  local floor = idle and share.time or share.time - window - entry.owed
  if entry.time < floor then entry.time, entry.carry = floor, 0 end
end

-- Adjusts the tiers' times after all lanes of a call have entered. A tier's time is the mean of its lanes', so lanes
-- that are far behind pull it back, and the others wait until these have caught up.
local function settle_in(pool)
  for _, tier in ipairs(TIERS) do
    local share = pool.tiers[tier]
    share.time, share.pull = share.time - share.pull, 0
  end
end

-- Returns whether the bucket is at least half full, so that the lanes that share it are not using their part.
local function pool_spares(pool, tier)
  local share = pool.tiers[tier]
  return share.bucket > 0 and 2 * share.bucket >= share.depth
end

-- Returns whether the lane may draw. If it is more than a window ahead, it may only while the bucket is at least half
-- full: its peers are not using their part then.
local function pool_allows(pool, lane, tier)
  local share, entry = pool.tiers[tier], pool.lanes[lane]
  if share.bucket <= 0 then return false end
  return entry.time <= share.time + window_of(share) or 2 * share.bucket >= share.depth
end

-- Returns how much a lane is granted at once: an eighth of its window. The caller grants at least one envelope.
local function quantum_of(pool, tier, weight)
  local share = pool.tiers[tier]
  return div(mul_div(share.depth, weight, math.max(share.busy, weight)), QUANTA)
end

-- Charges a grant to the bucket, the lane's time and the tier's time. The bucket may go below zero by less than one
-- envelope. The tier's time advances by its part of the grant. If the lane draws credit that its peers leave unused,
-- the tier's time first advances until the lane is only a window ahead, since it owes its peers nothing for that
-- credit. (The tier's time must not advance by all that such a lane draws: with envelopes larger than windows, lanes
-- behind would lose their turn for one late call.)
local function charge_pool(pool, lane, tier, weight, targets)
  local share, entry, amount = pool.tiers[tier], pool.lanes[lane], targets * UNIT
  entry.spare = entry.time > share.time + window_of(share)
  if entry.spare then share.time = entry.time - window_of(share) end
  local total_weight = math.max(share.busy, weight)
  share.bucket = share.bucket - amount
  local ahead = div(amount + entry.carry, weight)
  entry.carry = amount + entry.carry - ahead * weight
  entry.time = entry.time + ahead
  ahead = div(amount + share.carry, total_weight)
  share.carry = amount + share.carry - ahead * total_weight
  share.time = share.time + ahead
end

-- Refunds granted targets that were not used; this never raises a bucket above its depth.
local function refund_pool(pool, lane, tier, weight, targets)
  local share = pool.tiers[tier]
  share.bucket = math.min(share.bucket + targets * UNIT, math.max(share.bucket, share.depth))
  if not pool.lanes[lane] then load_times(pool, { lane }) end
  local entry = pool.lanes[lane]
  if entry and entry.tier == tier and weight > 0 then entry.time = entry.time - div(targets * UNIT, weight) end
end
