-- library
-- include: keys.lua
-- include: settings.lua
-- Pools: caps that lanes share. In the hash P:pool:<name>, for each tier: bucket, refilled by the tiers' weights;
-- depth, the most it may hold; time, its virtual time in millionths of a target per thousandth of weight; carry, the
-- remainder of the last division; busy, summed weight of lanes with demand that a worker holds; waiting, summed weight
-- of lanes with demand and no worker attached; wanted, announced targets. Retry lanes, which are in the total only, have
-- a time, carry, busy and waiting of their own, in fields that begin with `retry_`. Also refilled_us, and rate, the
-- lowest rate since then.
--
-- A tier's bucket is as deep as its demand, and at least 1/RESERVE_PART of its share of the window, for when the tier
-- wakes; all depths together are one window. So credit that a tier does not need goes to the others, and a lull saves
-- up no more than one window.
local RESERVE_PART = 5
local SHARE_FIELDS = { 'bucket', 'depth', 'wanted' }
local SIDE_FIELDS = { 'time', 'carry', 'busy', 'waiting' }

-- Calls visit(table, key, field) for each number of a pool that is stored by tier.
local function each_number(pool, visit)
  for _, tier in ipairs(TIERS) do
    local share = pool.tiers[tier]
    for _, key in ipairs(SHARE_FIELDS) do visit(share, key, key .. ':' .. tier) end
    for _, key in ipairs(SIDE_FIELDS) do visit(share.fresh, key, key .. ':' .. tier) end
    if pool.name == 'total' then
      for _, key in ipairs(SIDE_FIELDS) do visit(share.retries, key, 'retry_' .. key .. ':' .. tier) end
    end
  end
end

local function new_side()
  return { time = 0, carry = 0, busy = 0, waiting = 0, pull = 0 }
end

-- Reads a pool. A new pool begins full, as if it had been unused for long, except for the total, which begins empty.
local function load_pool(name, now_us)
  local pool, fields, at = { name = name, tiers = {}, lanes = {} }, { 'refilled_us', 'rate' }, 2
  for _, tier in ipairs(TIERS) do pool.tiers[tier] = { fresh = new_side(), retries = new_side() } end
  each_number(pool, function(_, _, field) fields[#fields + 1] = field end)
  local values = redis.call('HMGET', P .. ':pool:' .. name, unpack(fields))
  pool.refilled_us, pool.rate = int(values[1] or (name == 'total' and now_us or 0)), int(values[2])
  each_number(pool, function(numbers, key)
    at = at + 1
    numbers[key] = int(values[at])
  end)
  return pool
end

local function save_pool(pool)
  local args = { 'refilled_us', int_text(pool.refilled_us), 'rate', int_text(pool.rate) }
  each_number(pool, function(numbers, key, field)
    args[#args + 1] = field
    args[#args + 1] = int_text(numbers[key])
  end)
  redis.call('HSET', P .. ':pool:' .. pool.name, unpack(args))
  call.keep_pool(pool.name, div(pool.refilled_us, 1000))
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
    rebase = rebase or math.max(share.fresh.time, share.retries.time) > LARGEST
  end
  if rebase then
    redis.call('UNLINK', P .. ':vt:' .. pool.name)
    for _, tier in ipairs(TIERS) do pool.tiers[tier].fresh.time, pool.tiers[tier].retries.time = 0, 0 end
  end
end
