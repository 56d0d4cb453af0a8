-- library
-- include: keys.lua
-- include: settings.lua
-- Pools: caps that lanes share. In the hash P:pool:<name>, for each tier: bucket, refilled by the tiers' weights;
-- depth, the most it may hold; time, its virtual time in millionths of a target per thousandth of weight; carry, the
-- remainder of the last division; busy, summed weight of lanes with demand that a worker holds; wanted, announced
-- targets; waiting, summed weight of lanes with demand and no worker attached. Also refilled_us, and rate, the lowest
-- rate since then.
--
-- A tier's bucket is as deep as its demand, and at least 1/RESERVE_PART of its share of the window, for when the tier
-- wakes; all depths together are one window. So credit that a tier does not need goes to the others, and a lull saves
-- up no more than one window.
local RESERVE_PART = 5
local POOL_KEPT_MS = 600000
local SHARE_FIELDS = { 'bucket', 'depth', 'time', 'carry', 'busy', 'wanted', 'waiting' }

-- Reads a pool. A new pool begins full, as if it had been unused for long, except for the total, which begins empty.
local function load_pool(name, now_us)
  local fields = { 'refilled_us', 'rate' }
  for _, tier in ipairs(TIERS) do
    for _, field in ipairs(SHARE_FIELDS) do fields[#fields + 1] = field .. ':' .. tier end
  end
  local values = redis.call('HMGET', P .. ':pool:' .. name, unpack(fields))
  local pool = { name = name, refilled_us = int(values[1] or (name == 'total' and now_us or 0)), rate = int(values[2]) }
  pool.tiers, pool.lanes = {}, {}
  for i, tier in ipairs(TIERS) do
    local share = { pull = 0 }
    for j, field in ipairs(SHARE_FIELDS) do share[field] = int(values[2 + (i - 1) * #SHARE_FIELDS + j]) end
    pool.tiers[tier] = share
  end
  return pool
end

local function save_pool(pool)
  local args = { 'refilled_us', int_text(pool.refilled_us), 'rate', int_text(pool.rate) }
  for _, tier in ipairs(TIERS) do
    for _, field in ipairs(SHARE_FIELDS) do
      args[#args + 1] = field .. ':' .. tier
      args[#args + 1] = int_text(pool.tiers[tier][field])
    end
  end
  redis.call('HSET', P .. ':pool:' .. pool.name, unpack(args))
  redis.call('PEXPIRE', P .. ':pool:' .. pool.name, POOL_KEPT_MS)
end

-- Returns a pool, which is read once per call.
local function pool_of(name, now_us)
  call.pools[name] = call.pools[name] or load_pool(name, now_us)
  return call.pools[name]
end

local function fill_once(amount, levels, limits, weights)
  local total, open = 0, {}
  for _, tier in ipairs(TIERS) do
    if levels[tier] < limits[tier] then
      open[#open + 1] = tier
      total = total + weights[tier]
    end
  end
  if #open == 0 then return nil end
  local rest = amount
  for _, tier in ipairs(open) do
    local part = math.min(mul_div(amount, weights[tier], total), limits[tier] - levels[tier])
    levels[tier] = levels[tier] + part
    rest = rest - part
  end
  if rest == amount then
    levels[open[1]] = levels[open[1]] + 1
    rest = rest - 1
  end
  return rest
end

-- Shares an amount between levels by weight, none above its limit; any excess goes to the others at once. Returns the
-- amount that did not fit.
local function fill_by_weight(amount, levels, limits, weights)
  for _, tier in ipairs(TIERS) do
    if levels[tier] > limits[tier] then
      amount = amount + levels[tier] - limits[tier]
      levels[tier] = limits[tier]
    end
  end
  while amount > 0 do
    local rest = fill_once(amount, levels, limits, weights)
    if not rest then break end
    amount = rest
  end
  return amount
end

-- Returns the depth of each tier's bucket: its demand, at least a fifth of its share; all together one window.
local function depths_of(pool, weights)
  local window, total, limits, depths = depth_of(unpack(call.settings.caps[pool.name])), 0, {}, {}
  for _, tier in ipairs(TIERS) do total = total + weights[tier] end
  for _, tier in ipairs(TIERS) do
    local reserve = div(mul_div(window, weights[tier], total), RESERVE_PART)
    limits[tier] = math.max(reserve, math.min(pool.tiers[tier].wanted * UNIT, window))
    depths[tier] = 0
  end
  local rest = fill_by_weight(window, depths, limits, weights)
  for _, tier in ipairs(TIERS) do depths[tier] = depths[tier] + mul_div(rest, weights[tier], total) end
  return depths
end

-- Refills the buckets for the time since the last call, which counts as 0 if the clock stepped back. As with a task's
-- cap, that time counts at the lowest rate meanwhile. Virtual times restart at 0 before they grow too large to be
-- exact.
local function refill_pool(pool, now_us)
  local capacity, weights = call.settings.caps[pool.name][1], call.settings.weights
  local rate = lowest_rate(pool.rate, capacity)
  local elapsed = math.min(math.max(now_us - pool.refilled_us, 0), div(LARGEST, rate))
  pool.refilled_us, pool.rate = now_us, capacity
  local depths, levels, rebase = depths_of(pool, weights), {}, false
  for _, tier in ipairs(TIERS) do levels[tier] = pool.tiers[tier].bucket end
  fill_by_weight(elapsed * rate, levels, depths, weights)
  for _, tier in ipairs(TIERS) do
    local share = pool.tiers[tier]
    share.bucket, share.depth = levels[tier], depths[tier]
    rebase = rebase or share.time > LARGEST
  end
  if rebase then
    redis.call('UNLINK', P .. ':vt:' .. pool.name)
    for _, tier in ipairs(TIERS) do pool.tiers[tier].time = 0 end
  end
end
