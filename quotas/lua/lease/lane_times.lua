-- library
-- include: pools.lua
-- include: app_parts.lua
-- include: pages.lua
-- constants: FRESH_WEIGHT, RETRY_WEIGHT
-- Virtual times of lanes in a pool, in the hash P:vt:<pool>: `<tier> <time> <carry> <owed>`. owed: how much further
-- than a window the lane may lag, because it had backlog while no worker held it; at most LONGEST_WAIT_WINDOWS, which
-- is ten minutes. A lane is granted about 1/QUANTA of its window at a time, and at least one envelope.
--
-- A tier has two sides, each with a time of its own: the retry lanes, and all other lanes (fresh work). While both have
-- demand, each side's time advances by its part of what the tier is granted, 9 : 1.
local LONGEST_WAIT_WINDOWS = 2400
local QUANTA = 8

-- Returns the side of its tier that a lane, or its demand, is on.
local function side_of(lane)
  return lane.kind == 'r' and 'retries' or 'fresh'
end

-- Returns the part of an amount that belongs to a side of a tier. A side without a rival has it all.
local function part_of(share, side, amount)
  if share[side == 'fresh' and 'retries' or 'fresh'].busy == 0 then return amount end
  return mul_div(amount, side == 'fresh' and FRESH_WEIGHT or RETRY_WEIGHT, FRESH_WEIGHT + RETRY_WEIGHT)
end

-- Returns the window of the lanes on a side. Call it after the pool is refilled and all demand is announced.
local function window_of(share, side)
  local lanes = share[side]
  lanes.window = lanes.window or div(part_of(share, side, share.depth), math.max(lanes.busy, 1))
  return lanes.window
end

local function read_time(text)
  if not text then return nil end
  local tier, time, carry, owed = string.match(text, '^(%S+) (%-?%d+) (%d+) ?(%d*)$')
  return { tier = tier, time = int(time), carry = int(carry), owed = owed ~= '' and int(owed) or 0 }
end

local function load_times(pool, names)
  for i, text in ipairs(in_pages('HMGET', P .. ':vt:' .. pool.name, names)) do pool.lanes[names[i]] = read_time(text) end
end

local function save_times(pool)
  local args = {}
  for lane, entry in pairs(pool.lanes) do
    args[#args + 1] = lane
    args[#args + 1] = string.format('%s %.0f %.0f %.0f', entry.tier, entry.time, entry.carry, entry.owed)
  end
  in_pages('HSET', P .. ':vt:' .. pool.name, args)
  if #args > 0 then redis.call('PEXPIRE', P .. ':vt:' .. pool.name, POOL_KEPT_MS) end
end

-- Enters a lane that requests credit. A lane that was idle starts at its side's current time. A lane that lags is owed
-- at most a window, plus, if it was unattended, its further lag at the time when a worker took it.
local function enter_pool(pool, lane)
  local share, entry = pool.tiers[lane.tier], pool.lanes[lane.name]
  local side, window = share[side_of(lane)], window_of(share, side_of(lane))
  if not entry or entry.tier ~= lane.tier then
    entry = { tier = lane.tier, time = side.time, carry = 0, owed = 0 }
    pool.lanes[lane.name] = entry
  end
  local lag = math.max(side.time - window - entry.time, 0)
  if lane.was_unattended then
    lag = math.min(lag, LONGEST_WAIT_WINDOWS * window)
    if lag > 0 then side.pull = side.pull + mul_div(lag + window, lane.weight, math.max(side.busy, lane.weight)) end
  end
  entry.owed = lane.was_unattended and lag or math.min(entry.owed, lag)
  if lane.idle then entry.owed = 0 end
  local floor = lane.idle and side.time or side.time - window - entry.owed
  if entry.time < floor then entry.time, entry.carry = floor, 0 end
end

-- Adjusts the tiers' times after all lanes of a call have entered. The time of a side is the mean of its lanes', so
-- lanes that are far behind pull it back, and the others wait until these have caught up.
local function settle_in(pool)
  for _, tier in ipairs(TIERS) do
    for _, side in ipairs({ pool.tiers[tier].fresh, pool.tiers[tier].retries }) do
      side.time, side.pull = side.time - side.pull, 0
    end
  end
end

-- Returns whether the bucket is at least half full, so that the lanes that share it are not using their part.
local function pool_spares(pool, tier)
  local share = pool.tiers[tier]
  return share.bucket > 0 and 2 * share.bucket >= share.depth
end

-- Returns whether the lane may draw. If it is more than a window ahead, it may only while the bucket is at least half
-- full: its peers are not using their part then.
local function pool_allows(pool, lane)
  local share, entry, side = pool.tiers[lane.tier], pool.lanes[lane.name], side_of(lane)
  if share.bucket <= 0 then return false end
  return entry.time <= share[side].time + window_of(share, side) or 2 * share.bucket >= share.depth
end

-- Returns how much a lane is granted at once: an eighth of its window. The caller grants at least one envelope.
local function quantum_of(pool, lane)
  local share, side, weight = pool.tiers[lane.tier], side_of(lane), lane.weight
  return div(mul_div(part_of(share, side, share.depth), weight, math.max(share[side].busy, weight)), QUANTA)
end

-- Advances the time of a side by its part of a grant to its tier.
local function advance(share, side, amount, weight)
  local lanes, whole = share[side], FRESH_WEIGHT + RETRY_WEIGHT
  local part = part_of(share, side, amount * whole) + lanes.carry
  local ahead = div(part, weight * whole)
  lanes.carry = part - ahead * weight * whole
  lanes.time = lanes.time + ahead
end

-- Charges a grant to the bucket, the lane's time and the times of its tier. The bucket may go below zero by less than
-- one envelope. If the lane draws credit that its peers leave unused, its side's time first advances until the lane is
-- only a window ahead, since it owes its peers nothing for that credit. (That time must not advance by all that such a
-- lane draws: with envelopes larger than windows, lanes behind would lose their turn for one late call.) A side without
-- lanes advances as if it had one, so that a lane which comes back does not pay for the time without it.
local function charge_pool(pool, lane, targets)
  local share, entry, amount, side = pool.tiers[lane.tier], pool.lanes[lane.name], targets * UNIT, side_of(lane)
  local other, window = side == 'fresh' and 'retries' or 'fresh', window_of(share, side)
  entry.spare = entry.time > share[side].time + window
  if entry.spare then share[side].time = entry.time - window end
  share.bucket = share.bucket - amount
  local ahead = div(amount + entry.carry, lane.weight)
  entry.carry = amount + entry.carry - ahead * lane.weight
  entry.time = entry.time + ahead
  advance(share, side, amount, math.max(share[side].busy, lane.weight))
  advance(share, other, amount, math.max(share[other].busy, unit_weight()))
end

-- Refunds granted targets that were not used; this never raises a bucket above its depth.
local function refund_pool(pool, lane, tier, weight, targets)
  local share = pool.tiers[tier]
  share.bucket = math.min(share.bucket + targets * UNIT, math.max(share.bucket, share.depth))
  if not pool.lanes[lane] then load_times(pool, { lane }) end
  local entry = pool.lanes[lane]
  if entry and entry.tier == tier and weight > 0 then entry.time = entry.time - div(targets * UNIT, weight) end
end
