-- library
-- include: tasks.lua
-- include: lane_times.lua
-- include: heap.lua
-- Grants by quota: within a tier the lane furthest behind draws first, a quantum at a time.

local NONE = {}

-- Moves envelopes that must wait out of a lane of many tasks.
local function move(lane, segment, task)
  segment.waits, segment.lane = MOVE, exit_lane(task)
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

local function grant(lane, segment, task, count, task_pools)
  local targets = count * segment.want.size
  for _, pool in ipairs(lane.bound) do charge_pool(pool, lane.name, lane.tier, lane.weight, targets) end
  for _, pool in ipairs(task_pools) do
    local share = pool.tiers[lane.tier]
    share.bucket = share.bucket - targets * UNIT
  end
  if task.cap > 0 then task.bucket = task.bucket - targets * UNIT end
  lane.granted = lane.granted + targets
  segment.granted = segment.granted + count
  if segment.granted == segment.count then lane.head = lane.head + 1 end
end

-- Returns how many envelopes of this size the lane may draw at once; 0: none now, nil: they must leave the lane.
local function quantum(lane, size, max_count, task_pools)
  for _, pool in ipairs(lane.bound) do
    if not pool_allows(pool, lane.name, lane.tier) then return 0 end
  end
  for _, pool in ipairs(task_pools) do
    if not pool_spares(pool, lane.tier) then return nil end
  end
  for i, pool in ipairs(lane.bound) do
    local part = math.min(pool.tiers[lane.tier].bucket, lane.quanta[i])
    max_count = math.min(max_count, math.max(div(div(part, UNIT), size), 1))
  end
  for _, pool in ipairs(task_pools) do
    max_count = math.min(max_count, math.ceil(pool.tiers[lane.tier].bucket / (size * UNIT)))
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
  local count = quantum(lane, size, max_count, task_pools)
  if not count then return move(lane, segment, task) end
  if count == 0 then return false end
  grant(lane, segment, task, count, task_pools)
  return true
end

-- Returns how far a lane is ahead of its tier, in the pool where it is furthest ahead. In a pool that does not bind,
-- all lanes lag alike, so the pool that binds a lane decides its position.
local function ahead_of(lane, present)
  local first, ahead = lane.bound[1], 0
  if first then ahead = first.lanes[lane.name].time - present[first.name] end
  for i = 2, #lane.bound do
    local pool = lane.bound[i]
    ahead = math.max(ahead, pool.lanes[lane.name].time - present[pool.name])
  end
  return ahead
end

-- Shares the buckets of one tier between the lanes of this call; lane.bound: their pools. A sorted list is a heap.
local function share_tier(tier, lanes, now)
  local heap, present, total = {}, {}, call.settings.caps.total and call.pools.total.tiers[tier]
  for name in pairs(call.settings.caps) do present[name] = call.pools[name].tiers[tier].time end
  for at, lane in ipairs(lanes) do
    heap[at], lane.quanta = { lane = lane, index = at, time = ahead_of(lane, present) }, {}
    for i, pool in ipairs(lane.bound) do lane.quanta[i] = quantum_of(pool, tier, lane.weight) end
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
