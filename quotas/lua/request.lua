-- library
-- include: verdicts.lua
-- include: claims.lua
-- include: demand.lua
-- A lease request (dispatcher.lease.LeaseRequest) unpacked, and its answer.

local function read_wants(packed)
  local wants = {}
  for i, got in ipairs(packed) do
    wants[i] = { task = got[1], writer = got[2], attempt = got[3], first = got[4], count = got[5], size = got[6] }
    note_want(wants[i])
  end
  return wants
end

-- Tier, weight, cap of a lane at present; parked where its own task may not be sent now.
local function place(lane, kind, tier, now)
  lane.weight, lane.cap, lane.parked = MILLI, 0, false
  if kind == 'r' then
    lane.tier = tier
  elseif kind == 's' then
    local weight = int(redis.call('HGET', lane_key(lane.name), 'weight'))
    lane.tier, lane.weight = 'low', weight > 0 and weight or MILLI
  else
    local task = task_of(string.match(lane.name, '[^/]*$'))
    lane.tier, lane.weight, lane.cap = task.lane and task.tier or '', task.weight, task.cap
    lane.parked = not task.lane or task.over or gate(task, lane.name, now) ~= GRANTABLE
  end
end

-- The demand it announces: at least what may be granted, at most what its cap lets through in a window.
local function asked_by(lane, demand)
  local queued = 0
  for _, segment in ipairs(lane.queue) do queued = queued + segment.count * segment.want.size end
  local asked = math.max(demand, queued)
  if lane.cap > 0 then asked = math.min(asked, div(cap_depth(lane.cap), UNIT)) end
  return asked
end

local function read_lane(packed, now)
  local lane = { name = packed[1], demand = packed[4], wanted = read_wants(packed[5]), wants = {}, queue = {}, head = 1, granted = 0 }
  place(lane, packed[2], packed[3], now)
  return lane
end

local function judge_lane(lane, now, claim)
  for i, want in ipairs(lane.wanted) do
    lane.wants[i] = judge(lane.name, want, now, claim)
    for _, segment in ipairs(lane.wants[i]) do
      if segment.status == GRANTABLE then lane.queue[#lane.queue + 1] = segment end
    end
  end
  lane.asked = asked_by(lane, lane.demand)
end

local function piece(segment, status, count)
  if segment.lane ~= '' then return { status, count, 0, {}, segment.lane } end
  if segment.positions then return { status, count, segment.attempt, segment.positions } end
  return { status, count }
end

-- Puts the pieces of a segment into `pieces` and what is claimed into runs[task]; lets go of what was not granted.
local function settle(segment, pieces, runs)
  local want = segment.want
  local function hold(count, paid)
    mark(want, segment.first, count)
    runs[want.task] = runs[want.task] or {}
    add_run(runs[want.task], want.writer, want.attempt, segment.first, count, paid)
  end
  if segment.status ~= GRANTABLE then
    if is_claiming(segment.status) then hold(segment.count, 0) end
    pieces[#pieces + 1] = piece(segment, segment.status, segment.count)
    return
  end
  local rest = segment.count - segment.granted
  if segment.granted > 0 then
    hold(segment.granted, 1)
    pieces[#pieces + 1] = { GRANTED, segment.granted }
  end
  if rest > 0 then
    unmark(want, segment.first + segment.granted, rest)
    pieces[#pieces + 1] = piece(segment, segment.waits, rest)
  end
end

local function answer_of(lanes, runs)
  local answer = {}
  for i, lane in ipairs(lanes) do
    answer[i] = {}
    for j, segments in ipairs(lane.wants) do
      local pieces = {}
      for _, segment in ipairs(segments) do settle(segment, pieces, runs) end
      answer[i][j] = pieces
    end
  end
  return answer
end

-- The answer while the view is not ready: everything is held.
local function held_answer(lanes)
  local answer = {}
  for i, lane in ipairs(lanes) do
    answer[i] = {}
    for j, want in ipairs(lane[5]) do answer[i][j] = { { HELD, want[5] } } end
  end
  return answer
end
