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

local function is_before(a, b)
  if a.time ~= b.time then return a.time < b.time end
  return a.place < b.place
end

-- Moves the first entry of a heap to where it belongs by now.
local function sift(heap)
  local at, size = 1, #heap
  while true do
    local least, left = at, 2 * at
    if left <= size and is_before(heap[left], heap[least]) then least = left end
    if left < size and is_before(heap[left + 1], heap[least]) then least = left + 1 end
    if least == at then return end
    heap[at], heap[least] = heap[least], heap[at]
    at = least
  end
end

local function has_credit(pools, tier)
  for _, pool in ipairs(pools) do
    if pool.tiers[tier].bucket <= 0 then return false end
  end
  return true
end

-- The lanes of one tier, sorted by their time in the pool (which makes a heap).
local function line_up(lanes, pools)
  local heap = {}
  for place, lane in ipairs(lanes) do
    for _, pool in ipairs(pools) do enter_pool(pool, lane.name, lane.tier, lane.idle) end
    heap[place] = { lane = lane, place = place, time = pools[1] and pools[1].lanes[lane.name].time or 0 }
  end
  table.sort(heap, is_before)
  return heap
end

-- Shares the buckets of one tier between the lanes of this call.
local function share_tier(tier, lanes, pools, now)
  local heap = line_up(lanes, pools)
  while #heap > 0 and has_credit(pools, tier) do
    local first = heap[1]
    if draw(first.lane, pools, now) then
      first.time = pools[1] and pools[1].lanes[first.lane.name].time or 0
    else
      heap[1] = heap[#heap]
      heap[#heap] = nil
    end
    sift(heap)
  end
end
