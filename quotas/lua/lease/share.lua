-- library
-- include: tasks.lua
-- include: lane_times.lua
-- include: heap.lua
-- Grants by quota: within a tier the lane furthest behind draws first, a quantum at a time.

local NONE = {}

-- Moves envelopes that must wait out of a lane of many tasks; those of a trial send wait in it.
local function move(lane, segment, task)
  segment.waits = HELD
  if segment.first >= task.trial then segment.waits, segment.lane = MOVE, exit_lane(task) end
  lane.head = lane.head + 1
  return true
end

-- Returns the pools of a task in a lane of many tasks; the lane itself is in none of them.
local function pools_of_task(lane, task)
  if lane.app ~= '' or not call.settings.any_cap then return NONE end
  local pools = {}
  for i, name in ipairs(pools_of(task.app, task.channel)) do pools[i] = call.pools[name] end
  return pools
end

-- Notes when what is granted may be sent, for caps that the provider has (of a channel, an app on it, or a quota group).
-- The more of the cap's window is granted already, the later.
function call.pace(pool, task, cost)
  local cap = call.settings.caps[pool.name]
  if not call.is_paced(pool.name) then return end
  local flow = task.channel .. '/' .. task.app
  local entry = call.paces[pool.name .. ' ' .. flow]
  if not entry then
    local granted = 0
    for _, tier in ipairs(TIERS) do granted = granted + pool.tiers[tier].depth - pool.tiers[tier].bucket end
    entry = { pool.name, flow, 0, math.max(div(granted, cap[1]), 0), cap[1], cap[3] }
    call.paces[pool.name .. ' ' .. flow] = entry
  end
  entry[3] = entry[3] + cost
end

local function grant(lane, segment, task, count, task_pools)
  local size, targets = segment.want.size, count * segment.want.size
  for _, pool in ipairs(lane.bound) do
    local cost = call.cost_in(pool.name, task.channel, count, size)
    call.pace(pool, task, cost)
    charge_pool(pool, lane, cost)
  end
  for _, pool in ipairs(task_pools) do
    local share, cost = pool.tiers[lane.tier], call.cost_in(pool.name, task.channel, count, size)
    call.pace(pool, task, cost)
    share.bucket = share.bucket - cost * UNIT
  end
  if task.cap > 0 then task.bucket = task.bucket - targets * UNIT end
  lane.granted = lane.granted + targets
  segment.granted = segment.granted + count
  if segment.granted == segment.count then lane.head = lane.head + 1 end
end

-- Returns how many envelopes of this size the lane may draw at once; 0: none now, nil: they must leave the lane.
local function quantum(lane, task, size, max_count, task_pools)
  for _, pool in ipairs(lane.bound) do
    if not pool_allows(pool, lane) then return 0 end
  end
  for _, pool in ipairs(task_pools) do
    if not pool_spares(pool, lane.tier) then return nil end
  end
  for i, pool in ipairs(lane.bound) do
    local part = math.min(pool.tiers[lane.tier].bucket, lane.quanta[i])
    local cost = call.cost_in(pool.name, task.channel, 1, size)
    max_count = math.min(max_count, math.max(div(div(part, UNIT), cost), 1))
  end
  for _, pool in ipairs(task_pools) do
    local cost = call.cost_in(pool.name, task.channel, 1, size)
    max_count = math.min(max_count, math.ceil(pool.tiers[lane.tier].bucket / (cost * UNIT)))
  end
  return max_count
end

-- Grants one quantum; returns false if the lane can get no more.
local function draw(lane, now)
  local segment = lane.queue[lane.head]
  if not segment then return false end
  local task, size = task_of(segment.want.task), segment.want.size
  local level = cap_level(task, now)
  if level and level <= 0 then
    if task.shared or is_own(task, lane) then return false end
    return move(lane, segment, task)
  end
  local max_count, task_pools = segment.count - segment.granted, pools_of_task(lane, task)
  if level then max_count = math.min(max_count, math.ceil(level / (size * UNIT))) end
  local count = quantum(lane, task, size, max_count, task_pools)
  if not count then return move(lane, segment, task) end
  if count == 0 then return false end
  grant(lane, segment, task, count, task_pools)
  return true
end

-- Returns how far a lane is ahead of its side of the tier, in the pool where it is furthest ahead. In a pool that does
-- not bind, all lanes lag alike, so the pool that binds a lane decides its position. The lead of a retry lane is
-- expressed in the time of fresh work: so much later it has its turn.
local function ahead_of(lane, present)
  local ahead, side = nil, side_of(lane)
  for _, pool in ipairs(lane.bound) do
    local lead = pool.lanes[lane.name].time - present[pool.name][side]
    ahead = math.max(ahead or lead, lead)
  end
  if side == 'retries' and ahead then
    local share = call.pools.total.tiers[lane.tier]
    if share.fresh.busy > 0 then
      ahead = ahead * FRESH_WEIGHT * share.retries.busy / (RETRY_WEIGHT * share.fresh.busy)
    end
  end
  return ahead or 0
end

-- Shares the buckets of one tier between the lanes of this call; lane.bound: their pools. A sorted list is a heap.
local function share_tier(tier, lanes, now)
  local heap, present, total = {}, {}, call.settings.caps.total and call.pools.total.tiers[tier]
  for name in pairs(call.settings.caps) do
    local share = call.pools[name].tiers[tier]
    present[name] = { fresh = share.fresh.time, retries = share.retries.time }
  end
  for at, lane in ipairs(lanes) do
    heap[at], lane.quanta = { lane = lane, index = at, time = ahead_of(lane, present) }, {}
    for i, pool in ipairs(lane.bound) do lane.quanta[i] = quantum_of(pool, lane) end
  end
  table.sort(heap, is_before)
  while #heap > 0 and not (total and total.bucket <= 0) do
    local first = heap[1]
    if draw(first.lane, now) then
      first.time = ahead_of(first.lane, present)
    else
      heap[1] = heap[#heap]
      heap[#heap] = nil
    end
    sift(heap)
  end
end
