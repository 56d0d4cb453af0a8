-- library
-- include: tasks.lua
-- include: lane_times.lua
-- Grants by quota: within a tier the lane furthest behind draws first, a quantum at a time.

-- A capped task waits in its own lane, and leaves the lanes of others.
local function cap_reached(lane, segment, task)
  if task.shared or is_own(task, lane.name) then return false end
  segment.waits, segment.lane = MOVE, task.lane
  lane.head = lane.head + 1
  return true
end

local function grant(lane, segment, task, count, pools)
  local targets = count * segment.want.size
  for _, pool in ipairs(pools) do charge_pool(pool, lane.name, lane.tier, lane.weight, targets) end
  if task.cap > 0 then task.bucket = task.bucket - targets * UNIT end
  lane.granted = lane.granted + targets
  segment.granted = segment.granted + count
  if segment.granted == segment.count then lane.head = lane.head + 1 end
end

-- Grants one quantum; false if the lane can have no more.
local function draw(lane, pools, now)
  local segment = lane.queue[lane.head]
  if not segment then return false end
  local task, size = task_of(segment.want.task), segment.want.size
  local level = cap_level(task, now)
  if level and level <= 0 then return cap_reached(lane, segment, task) end
  local count = segment.count - segment.granted
  if level then count = math.min(count, math.ceil(level / (size * UNIT))) end
  for _, pool in ipairs(pools) do
    if not pool_allows(pool, lane.name, lane.tier) then return false end
  end
  for _, pool in ipairs(pools) do
    count = math.min(count, math.max(div(quantum_of(pool, lane.tier, lane.weight), size), 1))
  end
  grant(lane, segment, task, count, pools)
  return true
end

local function furthest_behind(lanes, pool)
  local best, best_time = 1, nil
  for i, lane in ipairs(lanes) do
    local time = pool and pool.lanes[lane.name].time or 0
    if not best_time or time < best_time then best, best_time = i, time end
  end
  return best
end

-- Shares the buckets of one tier between the lanes of this call.
local function share_tier(lanes, pools, now)
  for _, lane in ipairs(lanes) do
    for _, pool in ipairs(pools) do enter_pool(pool, lane.name, lane.tier, lane.idle) end
  end
  while #lanes > 0 do
    local i = furthest_behind(lanes, pools[1])
    if not draw(lanes[i], pools, now) then table.remove(lanes, i) end
  end
end
