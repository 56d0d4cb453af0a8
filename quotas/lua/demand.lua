-- library
-- include: lane_times.lua
-- Announced demand of lanes. P:demand (sorted set): when a lane is forgotten. P:demand_of (hash), while it has demand:
-- `<tier> <weight> <targets> <targets_until_ms> <until_ms> <pool,pool>`. A lane in the first only went idle ahead of its
-- tier: its virtual time is kept a while.
local DEBT_MS = 60000
local ALL_POOLS = { 'total' }

local function read_demand(text)
  if not text then return nil end
  local tier, weight, targets, targets_until, till, pools =
    string.match(text, '^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  local demand = { tier = tier, weight = int(weight), targets = int(targets), pools = {} }
  demand.targets_until, demand.till = int(targets_until), int(till)
  for name in string.gmatch(pools, '[^,]+') do demand.pools[#demand.pools + 1] = name end
  return demand
end

local function write_demand(demand)
  return string.format('%s %.0f %.0f %.0f %.0f %s', demand.tier, demand.weight, demand.targets, demand.targets_until,
    demand.till, table.concat(demand.pools, ','))
end

-- sign 1 to count a lane's demand in its pools, -1 to take it out.
local function count_demand(pools, demand, sign)
  for _, name in ipairs(demand.pools) do
    local share = pools[name].tiers[demand.tier]
    share.busy = share.busy + sign * demand.weight
    share.wanted = share.wanted + sign * demand.targets
    pools[name].changed = true
  end
end

local function forget_lane(lane)
  redis.call('ZREM', P .. ':demand', lane)
  for _, name in ipairs(ALL_POOLS) do redis.call('HDEL', P .. ':vt:' .. name, lane) end
end

local function keep_debt(lane, now)
  redis.call('ZADD', P .. ':demand', whole(now + DEBT_MS), lane)
end

local function is_ahead(pools, lane, demand)
  for _, name in ipairs(demand.pools) do
    local entry = read_time(redis.call('HGET', P .. ':vt:' .. name, lane))
    if entry and entry.time > pools[name].tiers[demand.tier].time then return true end
  end
  return false
end

-- Takes out the demand whose time has passed.
local function forget_demand(pools, now)
  local past = redis.call('ZRANGEBYSCORE', P .. ':demand', '-inf', whole(now), 'LIMIT', 0, 1000)
  for _, lane in ipairs(past) do
    local demand = read_demand(redis.call('HGET', P .. ':demand_of', lane))
    local ahead = false
    if demand then
      redis.call('HDEL', P .. ':demand_of', lane)
      count_demand(pools, demand, -1)
      ahead = is_ahead(pools, lane, demand)
    end
    if ahead then keep_debt(lane, now) else forget_lane(lane) end
  end
end

local function load_demand(lanes)
  for from = 1, #lanes, 1000 do
    local to, names = math.min(from + 999, #lanes), {}
    for i = from, to do names[#names + 1] = lanes[i].name end
    local got = redis.call('HMGET', P .. ':demand_of', unpack(names))
    for i = from, to do lanes[i].demand = read_demand(got[i - from + 1]) end
  end
end

-- The largest demand announced of late counts, so that a holder with an empty buffer does not hide another's.
local function renewed(lane, targets, till, now, names)
  local old = lane.demand
  local demand = { tier = lane.tier, weight = lane.weight, targets = targets, targets_until = till, till = till, pools = names }
  if old and old.targets > targets and old.targets_until > now then
    demand.targets, demand.targets_until = old.targets, old.targets_until
  end
  if old then demand.till = math.max(old.till, targets > 0 and till or 0) end
  return demand
end

-- Takes in what a lane of this call announces: lane.asked targets (already cut to its cap), unless it is parked.
local function announce_demand(lane, pools, names, now, demand_ms)
  local old = lane.demand
  if old then count_demand(pools, old, -1) end
  lane.idle = not old
  if lane.parked or #names == 0 or (lane.asked <= 0 and not old) then
    if old then
      redis.call('HDEL', P .. ':demand_of', lane.name)
      keep_debt(lane.name, now)
    end
    lane.demand = nil
    return
  end
  lane.demand = renewed(lane, lane.asked, now + demand_ms, now, names)
  count_demand(pools, lane.demand, 1)
  redis.call('HSET', P .. ':demand_of', lane.name, write_demand(lane.demand))
  redis.call('ZADD', P .. ':demand', whole(lane.demand.till), lane.name)
end
