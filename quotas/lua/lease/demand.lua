-- library
-- include: lane_times.lua
-- include: app_parts.lua
-- include: pages.lua
-- Announced demand of lanes. P:demand (sorted set): when a lane is forgotten. P:demand_of (hash), while a lane has
-- demand: `<kind> <tier> <weight> <targets> <targets_until_ms> <until_ms> <held_until_ms> <part> <0 or 1: waiting>
-- <app or -> <pool,pool>`; for a lane that went idle ahead of its tier, whose virtual times are kept for DEBT_MS:
-- `debt <pool,pool>`.
local DEBT_MS = 60000


-- Returns the names of pools in a text; cached, since most lanes share the same text.
local function list_of(text)
  local names = call.lists[text]
  if not names then
    names = {}
    for name in string.gmatch(text, '[^,]+') do names[#names + 1] = name end
    call.lists[text] = names
  end
  return names
end

-- Returns the demand, and the pools in which the lane has a virtual time.
local function read_demand(text)
  if not text then return nil, '' end
  local debt = string.match(text, '^debt (%S+)$')
  if debt then return nil, debt end
  local kind, tier, weight, targets, targets_until, until_ms, held, part, waiting, app, pools =
    string.match(text, '^(%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%S+) (%S+)$')
  if not tier then return nil, '' end
  local demand = { kind = kind, tier = tier, weight = int(weight), targets = int(targets), pools = pools }
  demand.targets_until, demand.until_ms, demand.held = int(targets_until), int(until_ms), int(held)
  demand.part, demand.app, demand.waiting = int(part), app, waiting == '1'
  return demand, pools
end

-- Queues a lane's demand; `save_demand` writes it.
local function write_demand(lane, demand)
  call.written[#call.written + 1] = lane
  local form = '%s %s %.0f %.0f %.0f %.0f %.0f %.0f %d %s %s'
  call.written[#call.written + 1] = string.format(form, demand.kind, demand.tier, demand.weight,
    demand.targets, demand.targets_until, demand.until_ms, demand.held, demand.part, demand.waiting and 1 or 0,
    demand.app, demand.pools)
  call.due[#call.due + 1] = int_text(demand.until_ms)
  call.due[#call.due + 1] = lane
end

local function save_demand()
  in_pages('HSET', P .. ':demand_of', call.written)
  in_pages('ZADD', P .. ':demand', call.due)
  redis.call('PEXPIRE', P .. ':demand', POOL_KEPT_MS)
  redis.call('PEXPIRE', P .. ':demand_of', POOL_KEPT_MS)
end

-- Adds a lane's demand to its pools (sign 1) or removes it (sign -1).
local function count_demand(demand, sign, now)
  for _, name in ipairs(list_of(demand.pools)) do
    local pool = pool_of(name, now * 1000)
    local share = pool.tiers[demand.tier]
    local side, held = share[side_of(demand)], demand.waiting and 'waiting' or 'busy'
    side[held] = side[held] + sign * demand.weight
    share.wanted = share.wanted + sign * demand.targets
    pool.changed = true
  end
end

-- Deletes the lane's virtual times in these pools, except for those in `kept`.
local function leave_pools(lane, pools, kept)
  local keep = {}
  for _, name in ipairs(list_of(kept)) do keep[name] = true end
  for _, name in ipairs(list_of(pools)) do
    if not keep[name] then redis.call('HDEL', P .. ':vt:' .. name, lane) end
  end
end

local function keep_debt(lane, pools, now)
  redis.call('HSET', P .. ':demand_of', lane, 'debt ' .. pools)
  redis.call('ZADD', P .. ':demand', int_text(now + DEBT_MS), lane)
end

local function is_ahead(lane, demand, now)
  for _, name in ipairs(list_of(demand.pools)) do
    local entry = read_time(redis.call('HGET', P .. ':vt:' .. name, lane))
    local share = pool_of(name, now * 1000).tiers[demand.tier]
    if entry and entry.time > share[side_of(demand)].time then return true end
  end
  return false
end

-- Removes expired demand.
local function forget_demand(now)
  local expired = redis.call('ZRANGEBYSCORE', P .. ':demand', '-inf', int_text(now), 'LIMIT', 0, 1000)
  for _, lane in ipairs(expired) do
    local demand, pools = read_demand(redis.call('HGET', P .. ':demand_of', lane))
    if demand then
      count_demand(demand, -1, now)
      count_part(demand.tier, demand.app, -demand.part)
    end
    if demand and is_ahead(lane, demand, now) then
      keep_debt(lane, pools, now)
    else
      redis.call('ZREM', P .. ':demand', lane)
      redis.call('HDEL', P .. ':demand_of', lane)
      leave_pools(lane, pools, '')
    end
  end
end

-- Clears all demand after a failed call, which may have counted only some lanes in some pools. All lanes are announced
-- again within a call or two.
local function forget_demand_of_all()
  redis.call('UNLINK', P .. ':demand', P .. ':demand_of', P .. ':parts')
  local pools = { 'total' }
  for _, field in ipairs(redis.call('HKEYS', P .. ':globals')) do
    local name = string.match(field, '^cap:(.*)$')
    if name then pools[#pools + 1] = string.gsub(name, ':', '/', 1) end
  end
  for _, name in ipairs(pools) do
    if redis.call('TYPE', P .. ':pool:' .. name).ok == 'hash' then
      for _, tier in ipairs(TIERS) do
        local key = P .. ':pool:' .. name
        redis.call('HSET', key, 'busy:' .. tier, '0', 'wanted:' .. tier, '0', 'waiting:' .. tier, '0')
        if name == 'total' then redis.call('HSET', key, 'retry_busy:' .. tier, '0', 'retry_waiting:' .. tier, '0') end
      end
    end
  end
end

local function load_demand(lanes)
  local names = {}
  for i, lane in ipairs(lanes) do names[i] = lane.name end
  local values = in_pages('HMGET', P .. ':demand_of', names)
  for i, lane in ipairs(lanes) do lane.demand, lane.before = read_demand(values[i]) end
end
